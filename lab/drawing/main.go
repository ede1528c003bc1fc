// Command drawing draws the packages of a tree and their imports as an SVG picture. A package is above its imports.
// Its box shows its lines of code (without tests and generated files) and grows with them.
//
//	go run -C lab ./drawing >packages.svg                         # this checkout
//	go run -C lab ./drawing --title "Before" ../../before >before.svg
//
// Internal packages that only tests import are left out, and so are arrows that others imply (a -> c if a -> b -> c).
// Packages that many import, and that import few, are in a row at the bottom, without arrows.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"assay/lab/internal/tree"
)

func main() {
	title := flag.String("title", "Packages and their imports", "title of the picture")
	skip := flag.String("without", "lab,tools,examples", "folders to leave out, separated by commas")
	shared := flag.Int("shared", 7, "packages with this many importers, and few imports, go to the bottom")
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
