package label

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/outside"
)

// TestNothingOutside: commands write only into the given folders and the user's store, and make no requests.
func TestNothingOutside(t *testing.T) {
	to := t.TempDir()
	folder := oracle.Folders(t)[0]
	in, _ := edits(t, folder)
	clip, dino := filepath.Join(folder, "clip", "model"), filepath.Join(folder, "dinov2", "model")
	config := filepath.Join(to, "label.yaml")
	text := fmt.Sprintf("out: labels\nprofile: adiee-paper\nsources: [{layout: table, name: edits, path: %s, "+
		"columns: {instruction: target_caption}}]\nencoders: {clip: %s, dino: %s, device: cpu}\n", in, clip, dino)
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	watch := func(name string, args ...string) {
		t.Run(name, func(t *testing.T) {
			if name != "similarities" {
				long.Test(t)
			}
			outside.Test(t, append([]string{os.Args[0]}, args...), []string{childEnv + "=1"}, to)
		})
	}
	watch("similarities", "similarities", "--clip", clip, "--dino", dino, "--in", in, "--out",
		filepath.Join(to, "measured.jsonl"))
	watch("label", "--config", config)
}
