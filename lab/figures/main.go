// Command figures measures the size of a tree: lines, packages, exported names that no other package names, the
// largest types, and the content of test messages. It only reads source text, so it works for any commit.
//
//	go run -C lab ./figures                        # this checkout, as a table in Markdown
//	go run -C lab ./figures ../../before "$PWD"    # two checkouts side by side
//	go run -C lab ./figures --json                 # machine-readable
//	go run -C lab ./figures --unnamed              # exported names that no other package names, by package
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"assay/lab/internal/tree"
)

func main() {
	asJSON := flag.Bool("json", false, "print an array of JSON objects, one for each tree")
	unnamed := flag.Bool("unnamed", false, "list the exported names that no other package names (*: its tests do)")
	flag.Parse()
	format := printTable
	switch {
	case *asJSON:
		format = printJSON
	case *unnamed:
		format = printUnnamed
	}
	if err := run(os.Stdout, flag.Args(), format); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, roots []string, format func(w io.Writer, roots []string, all []*Figures) error) error {
	if len(roots) == 0 {
		root, err := tree.Root("")
		if err != nil {
			return err
		}
		roots = []string{root}
	}
	var all []*Figures
	for _, root := range roots {
		t, err := tree.Read(root)
		if err != nil {
			return err
		}
		all = append(all, count(t))
	}
	return format(w, roots, all)
}

func printJSON(w io.Writer, _ []string, all []*Figures) error { return json.NewEncoder(w).Encode(all) }

// printUnnamed lists one package per line.
func printUnnamed(w io.Writer, roots []string, all []*Figures) error {
	for i, f := range all {
		fmt.Fprintf(w, "%d of %d exported names in %s:\n", f.Unnamed, f.Exported, roots[i])
		for _, pkg := range slices.Sorted(maps.Keys(f.unnamed)) {
			slices.Sort(f.unnamed[pkg])
			fmt.Fprintf(w, "%s: %s\n", pkg, strings.Join(f.unnamed[pkg], " "))
		}
	}
	return nil
}

// rows are the figures with a single value.
var rows = []struct {
	what  string
	value func(f *Figures) any
}{
	{"lines of Go without tests and generated files", func(f *Figures) any { return f.Lines }},
	{"of these in lab/", func(f *Figures) any { return f.LabLines }},
	{"files", func(f *Figures) any { return f.Files }},
	{"packages", func(f *Figures) any { return f.Packages }},
	{"packages of more than 45 files or 6,000 lines", func(f *Figures) any { return len(f.LargePackages) }},
	{"package with the most files", func(f *Figures) any { return first(f.LargestFiles) }},
	{"package with the most lines", func(f *Figures) any { return first(f.LargestLines) }},
	{"prefixes that three files of a package share", func(f *Figures) any { return len(f.Prefixes) }},
	{"exported package-level names", func(f *Figures) any { return f.Exported }},
	{"of these named by no other package", func(f *Figures) any {
		return fmt.Sprintf("%d (%.0f %%)", f.Unnamed, 100*float64(f.Unnamed)/float64(max(1, f.Exported)))
	}},
	{"of these named by other packages' tests", func(f *Figures) any {
		return f.OnlyTests
	}},
	{"exported types that share their name with another's", func(f *Figures) any { return f.Homonyms }},
	{"type with the most methods", func(f *Figures) any { return first(f.Methods) }},
	{"struct with the most fields", func(f *Figures) any { return first(f.Fields) }},
	{"error constructors per 1,000 lines", func(f *Figures) any { return fmt.Sprintf("%.1f", f.Errors) }},
	{"comment lines", func(f *Figures) any { return fmt.Sprintf("%.1f %%", 100*f.Comments) }},
	{"lines of tests", func(f *Figures) any { return f.TestLines }},
	{"tests", func(f *Figures) any { return f.Tests }},
	{"calls of t.Run", func(f *Figures) any { return f.Subtests }},
	{"test messages with got and want", func(f *Figures) any {
		return fmt.Sprintf("%.0f %% of %d", 100*f.GotWant, f.Messages)
	}},
	{"lines of docs/*.md", func(f *Figures) any { return f.DocLines }},
}

func first(list []Count) string {
	if len(list) == 0 {
		return "none"
	}
	return fmt.Sprintf("%s (%d)", list[0].Name, list[0].N)
}

// printTable writes a column for each tree, followed by the longer lists.
func printTable(w io.Writer, roots []string, all []*Figures) error {
	fmt.Fprintf(w, "| figure | %s |\n|---|%s\n", strings.Join(roots, " | "), strings.Repeat("---|", len(roots)))
	for _, row := range rows {
		fmt.Fprintf(w, "| %s |", row.what)
		for _, f := range all {
			fmt.Fprintf(w, " %v |", row.value(f))
		}
		fmt.Fprintln(w)
	}
	for i, f := range all {
		for _, list := range []struct {
			what   string
			counts []Count
		}{
			{"Packages of more than 6,000 lines or 45 files", f.LargePackages},
			{"Types with the most methods", f.Methods},
			{"Structs with the most fields", f.Fields},
			{"Prefixes that three or more files of a package share", f.Prefixes},
		} {
			fmt.Fprintf(w, "\n%s in %s:\n\n", list.what, roots[i])
			for _, c := range list.counts {
				fmt.Fprintf(w, "    %6d  %s\n", c.N, c.Name)
			}
		}
	}
	return nil
}
