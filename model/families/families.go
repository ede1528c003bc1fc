// Package families registers every backbone family in a program: import it for its side effects.
package families

import (
	_ "assay/model/llavanext"
	_ "assay/model/qwen25vl"
	_ "assay/model/qwen2vl"
	_ "assay/model/qwen3vl"
)
