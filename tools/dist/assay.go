//go:build ignore

// Command assay is train, score and label in one program: assay train, assay score, assay label, and as the name by
// which it is started. tools/dist/program.sh puts it together.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"assay/build/_assay/label"
	"assay/build/_assay/score"
	"assay/build/_assay/train"
	"assay/internal/version"
	"assay/ort"
)

// commit is set by the linker.
var commit = "unknown"

const usage = `assay trains and runs reward models for instruction-guided image editing.

  assay label      build a table of labelled edits
  assay train      train a scorer on it
  assay score      score edits: one, a table, a benchmark, or as a server
  assay fetch      fetch scorers and checkpoints from the Hugging Face Hub (score fetch)
  assay cache      list and prune what is kept (score cache)
  assay demo       score an edit with the small scorer that came with the program
  assay version    version, commit and runtime

assay COMMAND --help says more of each.
`

func main() {
	commands := map[string]func(){"train": train.Main, "score": score.Main, "label": label.Main}
	if run := commands[filepath.Base(os.Args[0])]; run != nil {
		run()
	}
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	switch name := os.Args[1]; name {
	case "train", "score", "label":
		os.Args = os.Args[1:]
		commands[name]()
	case "fetch", "cache":
		os.Args[0] = "score"
		score.Main()
	case "demo":
		demo()
	case "version", "--version":
		os.Exit(printVersion())
	case "help", "--help", "-h":
		fmt.Print(usage)
	default:
		fmt.Fprintf(os.Stderr, "error: assay has no command %s\n\n%s", name, usage)
		os.Exit(2)
	}
}

// demo scores an edit with the scorer and the pictures of the wheel, and shows the command.
func demo() {
	program, err := os.Executable()
	if real, e := filepath.EvalSymlinks(program); e == nil {
		program = real
	}
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(program), "..", "lib*", "python3*", "*-packages", "assay_reward",
		"demo"))
	if err != nil || len(found) == 0 {
		fmt.Fprintln(os.Stderr, "error: the small scorer is not here: pip installs it with the program")
		os.Exit(1)
	}
	in := func(name string) string { return filepath.Join(filepath.Clean(found[0]), name) }
	os.Args = []string{"score", "pair", "--scorer", in("tiny-scorer"), "--source", in("coffee.png"), "--edit",
		in("coffee_blur.png"), "--instruction", "blur the picture"}
	fmt.Fprintf(os.Stderr, "in %s:\nassay score pair --scorer tiny-scorer --source coffee.png --edit coffee_blur.png "+
		"--instruction \"blur the picture\"\n", in("."))
	score.Main()
}

// printVersion says what the program is made of, and fails without ONNX Runtime.
func printVersion() int {
	fmt.Printf("assay %s, commit %s, %s %s/%s\n", version.Version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" && s.Value != "" {
				fmt.Println("features", s.Value)
			}
		}
	}
	v, err := ort.Version()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	fmt.Println("ONNX Runtime", v)
	return 0
}
