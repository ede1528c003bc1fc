package readers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"assay/heuristics"
)

func init() {
	register(Layout{
		Name: "adiee-magicbrush",
		About: "ADIEE-MagicBrush-Data: for each editor <m>_img, <m>_clipdir, <m>_clipsim, <m>_dinosim; arrow files or " +
			"Parquet",
		Fields: map[string]string{"id": "id", "session": "img_id", "source": "source_img", "target": "target_img",
			"instruction":    "instruction",
			"source_caption": "source_caption", "target_caption": "target_caption", "split": "split"},
		Needed: []string{"source", "instruction"},
		open:   openTabular(openRows, func(t tabular) Reader { return &adiee{t} }),
	})
}

// adiee reads one row per instruction with the outputs of all editors side by side. Every column ending in _img is an
// editor's, except the source, the target and a mask.
type adiee struct{ tabular }

func (r *adiee) Read(i int) (*Sample, error) {
	c, err := readRow(r.rows, i, &r.o)
	if err != nil {
		return nil, err
	}
	c.need("source", "instruction")
	s := &Sample{
		ID:            cmp.Or(c.text("id"), fmt.Sprintf("%06d", i)),
		Session:       c.text("session"),
		Split:         c.text("split"),
		Source:        c.picture("source"),
		Target:        c.picture("target"),
		Instruction:   c.text("instruction"),
		SourceCaption: c.text("source_caption"),
		TargetCaption: c.text("target_caption"),
	}
	known := []string{c.column("source"), c.column("target"), "mask_img"}
	for _, f := range c.rec.Fields {
		editor, ok := strings.CutSuffix(f.Name, "_img")
		if !ok || slices.Contains(known, f.Name) {
			continue
		}
		out := Output{
			Picture: c.picture(f.Name),
			Candidate: heuristics.Candidate{
				Editor: editor,
				ClipD:  c.similarity(editor + "_clipdir"),
				ClipI:  c.similarity(editor + "_clipsim"),
				DinoI:  c.similarity(editor + "_dinosim"),
			},
			Profile: cmp.Or(r.o.Profile, heuristics.ProfileReleased),
		}
		if !out.Picture.IsZero() {
			s.Outputs = append(s.Outputs, out)
		}
	}
	return s, c.err()
}

// owns reports whether a column belongs to an editor.
func (r *adiee) owns(column string, all []string) bool {
	for _, end := range []string{"_img", "_clipdir", "_clipsim", "_dinosim"} {
		if editor, ok := strings.CutSuffix(column, end); ok && slices.Contains(all, editor+"_img") {
			return column != "mask_img"
		}
	}
	return false
}
