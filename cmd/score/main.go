// Command score rates how well an image edit follows its instruction.
package main

import "assay/internal/cli/score"

func main() { score.App.Main() }
