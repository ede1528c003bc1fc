// Command drawing draws the packages of a tree and their imports as an SVG picture. A package stands above all that it
// imports. Its box has its lines of code (tests and generated files are not counted), the box's area grows with them.
//
//	go run -C lab ./drawing >packages.svg                         # this checkout
//	go run -C lab ./drawing --title "Before" ../../before >before.svg
//
// Internal packages that only tests import are left out. So that the arrows can be followed, one that other arrows
// imply is left out, too (a -> c where a -> b -> c). Packages that many import, and that import few, stand in a row
// at the bottom, without the arrows that lead to them.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"assay/lab/internal/tree"
)

func main() {
	title := flag.String("title", "Packages and their imports", "what stands above the picture")
	skip := flag.String("without", "lab,tools,examples", "folders that are left out, with commas between")
	shared := flag.Int("shared", 7, "a package that so many import, and that imports few, stands at the bottom")
	flag.Parse()
	if err := run(flag.Arg(0), *title, strings.Split(*skip, ","), *shared); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(root, title string, without []string, shared int) error {
	root, err := tree.Root(root)
	if err != nil {
		return err
	}
	t, err := tree.Read(root)
	if err != nil {
		return err
	}
	_, err = os.Stdout.WriteString(newGraph(t, without).draw(title, shared))
	return err
}
