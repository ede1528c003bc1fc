// Package families links every backbone family into a program: import it for its effect.
package families

import (
	_ "assay/model/llavanext"
	_ "assay/model/qwen25vl"
	_ "assay/model/qwen2vl"
	_ "assay/model/qwen3vl"
)
