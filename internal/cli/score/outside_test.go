package score

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/outside"
	"assay/internal/ptrace"
)

// childEnv makes the test binary a plain `score` if it is 1. Otherwise it names a file with a request: a server is
// started, gets that request, and is stopped after a while.
const childEnv = "ASSAY_TEST_SCORE"

func TestMain(m *testing.M) {
	ptrace.Become()
	switch file := os.Getenv(childEnv); file {
	case "":
		os.Exit(m.Run())
	case "1":
		App.Main()
	default:
		if err := serveAndAsk(file); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
	}
}

// serveAndAsk starts the server of this process's arguments. The server is idle for 15 seconds, since libraries that
// send telemetry start after about ten.
func serveAndAsk(file string) error {
	body, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	server := exec.Command(os.Args[0], os.Args[1:]...)
	server.Env = append(os.Environ(), childEnv+"=1")
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		return err
	}
	defer server.Process.Kill()
	var ready struct{ Address string }
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		return err
	}
	answer, err := http.Post(ready.Address+"/v1/score", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s, want 200", answer.Status)
	}
	time.Sleep(15 * time.Second)
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return server.Wait()
}

// TestNothingOutside: commands write only into the given folders and the user's store, and make requests only to the
// given server.
func TestNothingOutside(t *testing.T) {
	out := t.TempDir()
	images := filepath.Join(oracle.Folders(t)[0], "images")
	source, edit := filepath.Join(images, "coffee.png"), filepath.Join(images, "coffee_blur.png")
	scorer := filepath.Join("..", "..", "..", "backbones", "tiny-scorer")
	row, err := json.Marshal(map[string]string{"source": source, "edit": edit, "instruction": "blur it"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, out, "edits.jsonl", append(row, '\n'))
	in, to := filepath.Join(out, "edits.jsonl"), func(name string) string { return filepath.Join(out, name) }
	watch := func(name, line string, more ...string) {
		t.Run(name, func(t *testing.T) {
			if name != "pair" {
				long.Test(t)
			}
			args := append([]string{os.Args[0]}, append(strings.Fields(line), more...)...)
			outside.Test(t, args, []string{childEnv + "=1"}, out)
		})
	}
	one := []string{"--scorer", scorer, "--source", source, "--edit", edit, "--instruction", "blur it"}
	watch("pair", "pair", one...)
	watch("gradient", "gradient", append(one, "--out", to("gradient.safetensors"))...)
	watch("batch", "batch", "--scorer", scorer, "--in", in, "--out", to("scores.parquet"))
	watch("best", "best", "--scorer", scorer, "--in", in, "--out", to("best.jsonl"))
	watch("condition", "condition", "--scorer", scorer, "--in", in, "--out", to("labels"))
	watch("chat", "chat --max-new-tokens 4 --text what? --backbone", filepath.Join("..", "..", "..", "backbones", "tiny"))
	watch("cache", "cache list")
	url, _ := judgeServer(t, `{"score": [20, 10], "reasoning": "so"}`)
	watch("judge", "judge --config editscore --model m", "--url", url, "--in", in, "--out", to("judged.jsonl"))
	t.Run("serve", func(t *testing.T) {
		long.Test(t)
		read := func(path string) []byte {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}
		request, err := json.Marshal(map[string]any{"source": read(source), "edits": [][]byte{read(edit)},
			"instruction": "blur it"})
		if err != nil {
			t.Fatal(err)
		}
		put(t, out, "request.json", request)
		outside.Test(t, []string{os.Args[0], "serve", "--scorer", scorer, "--addr", "127.0.0.1:0", "--json"},
			[]string{childEnv + "=" + to("request.json")}, out)
	})
}
