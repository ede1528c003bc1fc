// Command figures counts what the size of the tree is judged by: lines, packages, exported names that no other package
// names, the largest types, and what test messages say. It reads source text only.
//
//	go run -C lab ./figures            # the whole tree
//	go run -C lab ./figures --json     # for comparisons
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	asJSON := flag.Bool("json", false, "print JSON")
	flag.Parse()
	out, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err == nil {
		err = run(strings.TrimSpace(string(out)), *asJSON)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(root string, asJSON bool) error {
	t, err := read(root)
	if err != nil {
		return err
	}
	f := t.figures()
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(f)
	}
	fmt.Printf("lines of Go, no tests, nothing generated   %d in %d files, %d packages\n", f.Lines, f.Files, f.Packages)
	fmt.Printf("of these in lab/                           %d\n", f.LabLines)
	fmt.Printf("lines of tests                             %d\n", f.TestLines)
	fmt.Printf("comment lines                              %.1f%%\n", 100*f.Comments)
	fmt.Printf("lines of docs/*.md                         %d\n", f.DocLines)
	fmt.Printf("error constructors per 1,000 lines         %.1f\n", f.Errors)
	fmt.Printf("exported names, and those no package names %d, %d\n", f.Exported, f.Unnamed)
	fmt.Printf("exported types that share their name       %d\n", f.Homonyms)
	fmt.Printf("test messages that say got and want        %.0f%% of %d\n", 100*f.GotWant, f.Messages)
	fmt.Printf("calls of t.Run                             %d\n", f.Subtests)
	print := func(what string, list []Count) {
		fmt.Printf("\n%s\n", what)
		for _, c := range list {
			fmt.Printf("  %6d  %s\n", c.N, c.Name)
		}
	}
	print("packages of more than 6,000 lines or 45 files", f.LargePackages)
	print("types with the most methods", f.Methods)
	print("structs with the most fields", f.Fields)
	print("prefixes that three or more files of a package share", f.Prefixes)
	return nil
}
