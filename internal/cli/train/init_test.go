package train

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/testfile"
)

func TestInit(t *testing.T) {
	dir := t.TempDir()
	texts, sizes := filepath.Join(dir, "a.txt"), filepath.Join(dir, "sizes.yaml")
	if err := os.WriteFile(texts, []byte(strings.Repeat("Make the sky purple. ", 20)), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(
		sizes,
		[]byte("hidden: 32\nheads: 4\nlayers: 1\ngrid: [[1, 2]]\nimage_size: 90\n"),
		0o666,
	); err != nil {
		t.Fatal(err)
	}
	qwen := filepath.Join(dir, "qwen.yaml")
	if err := os.WriteFile(
		qwen,
		[]byte(
			"family: qwen2_5_vl\nhidden: 32\nheads: 2\nlayers: 1\nvision_hidden: 32\nvision_layers: 2\nfull_attention: [1]\n",
		),
		0o666,
	); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	for _, c := range []struct {
		args []string
		code int
		want string // part of stdout or stderr
	}{
		{[]string{"--text", texts, "--sizes", sizes}, 2, sizes + ":5:1: image_size: 90 is not a multiple"},
		{[]string{"--text", texts, "--sizes", sizes, "--image-size", "28", "--vocab", "9"}, 2, "error: vocab: 9"},
		{[]string{"--text", texts, "--grid", "1x2x3"}, 2, `"1x2x3" is not ROWSxCOLUMNS`},
		{[]string{"--sizes", sizes}, 2, `required flag(s) "text"`},
		{[]string{"--text", texts, filepath.Join(dir, "none.txt"), "--layers", "1"}, 1, "none.txt"},
		{[]string{"--text", texts, texts, "--sizes", sizes, "--image-size", "28", "--grid", "2x1,1x2", "--json"}, 0,
			`"tile_tokens":4`},
		{[]string{"--text", texts, "--sizes", sizes}, 2, "new exists already and is not empty"},
		{[]string{"--text", texts, "--out", other, "--family", "gpt"}, 2, `family: "gpt" is not known`},
		{[]string{"--text", texts, "--sizes", qwen, "--out", other, "--grid", "1x2"}, 2, "grid: only llava_next has it"},
		{[]string{"--text", texts, "--sizes", qwen, "--out", other, "--full-attention", "0,7"}, 2,
			"full_attention: 7 is not among the layers 0 to 1"},
		{[]string{"--text", texts, "--sizes", qwen, "--full-attention", "0,1", "--out", filepath.Join(dir, "frames"),
			"--json"}, 0, `"parameters":`},
	} {
		var stdout, stderr strings.Builder
		code := App.Run(
			context.Background(),
			append([]string{"init", "--out", filepath.Join(dir, "new")}, c.args...),
			&stdout,
			&stderr,
		)
		if code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.want) {
			t.Errorf("%v: exit code %d, want %d with %q\n%s%s", c.args, code, c.code, c.want, stdout.String(), stderr.String())
		}
	}
	var llava struct {
		Grid [][]int `json:"image_grid_pinpoints"`
		Text struct {
			Hidden int `json:"hidden_size"`
		} `json:"text_config"`
	}
	testfile.ReadJSON(t, filepath.Join(dir, "new", "config.json"), &llava)
	if len(llava.Grid) != 2 || llava.Grid[0][0] != 56 || llava.Text.Hidden != 32 {
		t.Errorf("%+v", llava)
	}
	var frames struct {
		Vision struct {
			Whole []int `json:"fullatt_block_indexes"`
			Out   int   `json:"out_hidden_size"`
		} `json:"vision_config"`
	}
	testfile.ReadJSON(t, filepath.Join(dir, "frames", "config.json"), &frames)
	if len(frames.Vision.Whole) != 2 || frames.Vision.Out != 32 {
		t.Errorf("%+v", frames)
	}
}
