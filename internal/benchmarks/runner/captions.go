package runner

import (
	"fmt"
	"maps"
	"slices"

	"assay/edit"
	"assay/encoders"
	"assay/internal/benchmarks/protocol"
)

// SetCaptions sets the captions of items from a file of JSON lines of id, source_caption and target_caption ("" as the
// file: none). The error names the items that lack what a similarity needs.
func SetCaptions(kind encoders.SimilarityKind, items []*edit.Edit, file string) error {
	captions, err := readCaptions(file)
	if err != nil {
		return err
	}
	var p protocol.Problems
	none := map[string]bool{}
	unknownCaptions(captions, items, file, &p)
	if kind.Target && !slices.ContainsFunc(items, func(it *edit.Edit) bool { return it.Picture(protocol.Target) != nil }) {
		return fmt.Errorf("%s needs the target picture, which this benchmark does not have; %s_source "+
			"compares with the source instead", kind.Name, kind.Name)
	}
	for _, it := range items {
		if c, ok := captions[it.ID]; ok {
			protocol.SetCaptions(it, c)
		}
		before, after, target := it.Texts[protocol.SourceCaption], it.Texts[protocol.TargetCaption],
			protocol.PictureOf(it, protocol.Target)
		lacks := func(what string) {
			if !none[it.ID] {
				none[it.ID] = true
				p.Add(it.ID, "%s needs %s", kind.Name, what)
			}
		}
		switch {
		case kind.Captions > 1 && before == "":
			lacks("--captions: JSON lines of id, source_caption and target_caption, which the data do not have")
		case kind.Captions > 1 && before == after:
			lacks("two captions that differ: equal captions have no direction, so it is undefined")
		case kind.Captions > 0 && after == "":
			lacks("--captions: JSON lines of id and target_caption, which the data do not have")
		case kind.Target && target.None():
			lacks("the target picture")
		case kind.Target && target.Read == nil:
			if !none[it.ID] {
				none[it.ID] = true
				protocol.FilePicture(target.Path, true, &p)
			}
		}
	}
	return p.Err()
}

// unknownCaptions reports captions whose id is not an item.
func unknownCaptions(captions map[string][2]string, items []*edit.Edit, file string, p *protocol.Problems) {
	known := map[string]bool{}
	for _, it := range items {
		known[it.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(captions)) {
		if !known[id] {
			p.Add(file, "%q is not an item of the data: want an id such as %q", id, items[0].ID)
		}
	}
}

// readCaptions reads the captions of source and wanted result by id; an empty path has none.
func readCaptions(path string) (map[string][2]string, error) {
	out := map[string][2]string{}
	if path == "" {
		return out, nil
	}
	return out, protocol.EachLine(path, func(r *protocol.Line) error {
		id, captions := r.Filled("id"), [2]string{}
		for i, role := range []string{protocol.SourceCaption, protocol.TargetCaption} {
			if r.Has(role) {
				captions[i] = r.Text(role)
			}
		}
		if _, twice := out[id]; twice {
			return fmt.Errorf("second captions for %q", id)
		}
		out[id] = captions
		return nil
	})
}
