package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"assay/edit"
	"assay/encoders"
	"assay/internal/benchmarks/protocol"
)

// SetCaptions gives items the captions of a file of JSON lines of id, source_caption and target_caption ("": none), and
// says which items lack what a similarity needs.
func SetCaptions(kind encoders.SimilarityKind, items []*edit.Edit, file string) error {
	captions := map[string][2]string{}
	if file != "" {
		var err error
		if captions, err = readCaptions(file); err != nil {
			return err
		}
	}
	var p protocol.Problems
	none := map[string]bool{}
	unknownCaptions(captions, items, file, &p)
	if kind.Target && !slices.ContainsFunc(items, func(it *edit.Edit) bool { return it.Picture(protocol.Target) != nil }) {
		return fmt.Errorf("%s needs the picture of the wanted result, which this benchmark does not have; %s_source "+
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
			lacks("two captions that differ: it is undefined where they are equal, which have no direction")
		case kind.Captions > 0 && after == "":
			lacks("--captions: JSON lines of id and target_caption, which the data do not have")
		case kind.Target && target.None():
			lacks("the picture of the wanted result")
		case kind.Target && target.Read == nil:
			if !none[it.ID] {
				none[it.ID] = true
				protocol.FilePicture(target.Path, true, &p)
			}
		}
	}
	return p.Err()
}

// unknownCaptions names captions of what is no item.
func unknownCaptions(captions map[string][2]string, items []*edit.Edit, file string, p *protocol.Problems) {
	known := map[string]bool{}
	for _, it := range items {
		known[it.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(captions)) {
		if !known[id] {
			p.Add(file, "%q is no item of the data: an id such as %q was expected", id, items[0].ID)
		}
	}
}

func readCaptions(path string) (map[string][2]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string][2]string{}
	d := json.NewDecoder(f)
	for line := 1; ; line++ {
		var row struct {
			ID     string `json:"id"`
			Before string `json:"source_caption"`
			After  string `json:"target_caption"`
		}
		if err := d.Decode(&row); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil || row.ID == "" {
			return nil, fmt.Errorf("%s: entry %d: id, source_caption and target_caption are wanted (%v)", path, line,
				err)
		}
		if _, twice := out[row.ID]; twice {
			return nil, fmt.Errorf("%s: entry %d: second captions of %q", path, line, row.ID)
		}
		out[row.ID] = [2]string{row.Before, row.After}
	}
}
