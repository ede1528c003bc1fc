package llavanext

import (
	"slices"
	"testing"

	"assay/data"
	"assay/model/backbone"
)

// TestTilesLargerThanPatches: where a tile is larger than its whole patches, features are in the order of transformers
// 5.23's LlavaNextModel.pack_image_features, over features numbered from 0; -1 is the newline.
func TestTilesLargerThanPatches(t *testing.T) {
	b := &Architecture{crop: 20, pinpoints: [][2]int{{40, 40}, {20, 40}}, vision: visionConfig{Patch: 8}}
	for size, want := range map[[2]int][]int64{ // height, width
		{10, 40}: {0, 1, 2, 3, 4, 5, 8, 9, -1, 6, 7, 10, 11, -1},
		{24, 40}: {0, 1, 2, 3, 6, 7, 10, 11, -1, 12, 13, 16, 17, -1},
		{40, 30}: {0, 1, 2, 3, 4, 5, 8, 9, -1, 6, 7, 10, 11, -1, 12, 13, 16, 17, -1, 14, 15, 18, 19, -1},
	} {
		p, err := b.Prepare(data.NewPicture(size[1], size[0]))
		if err != nil {
			t.Fatal(err)
		}
		feeds, err := b.Feeds([]*backbone.Picture{p}, p.Pixels)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Clone(feeds[inOrder].Int64s())
		for i, row := range got {
			if row >= int64(p.Rows*b.side()*b.side()) {
				got[i] = -1
			}
		}
		if !slices.Equal(got, want) || p.Tokens != len(want) {
			t.Errorf("%d x %d: got %v, %d tokens, want %v", size[0], size[1], got, p.Tokens, want)
		}
	}
}
