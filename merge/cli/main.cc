namespace trapline::cli {
int run_command(int argc, char** argv);  // from commands.h, without CLI11
}

int main(int argc, char** argv) { return trapline::cli::run_command(argc, argv); }
