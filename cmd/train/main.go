// Command train trains edit scorers and works on their files.
package main

import "assay/internal/cli/train"

func main() { train.App.Main() }
