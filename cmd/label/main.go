// Command label builds tables of labelled edits.
package main

import "assay/internal/cli/label"

func main() { label.App.Main() }
