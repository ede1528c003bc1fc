package families

import (
	"os"
	"path/filepath"
	"testing"

	"assay/model"
)

// published are the configurations of checkpoints on the Hub, and how many parameters those have.
var published = map[string]int64{
	"llava-v1.6-mistral-7b-hf": 7566747648,
	"llama3-llava-next-8b-hf":  8355276800,
	"Qwen2.5-VL-3B-Instruct":   3754622976,
	"Qwen2.5-VL-7B-Instruct":   8292166656,
	"Qwen2.5-VL-32B-Instruct":  33452718336,
	"Qwen2.5-VL-72B-Instruct":  73410777344,
}

// Every key of a published configuration is known, and what follows from them is the checkpoint's size.
func TestPublished(t *testing.T) {
	for name, want := range published {
		b, err := model.DescribeBackbone(filepath.Join("testdata", name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var n int64
		for _, p := range b.Parameters() {
			size := int64(1)
			for _, d := range p.Shape {
				size *= d
			}
			n += size
		}
		if n != want {
			t.Errorf("%s: %d parameters, want %d", name, n, want)
		}
		b.Close()
	}
	entries, err := os.ReadDir("testdata")
	if err != nil || len(entries) != len(published) {
		t.Errorf("%d folders, %v", len(entries), err)
	}
}
