package hub

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/hub/hubtest"
	"assay/internal/long"
)

// childEnv makes the test binary fetch a name instead of running tests.
const childEnv = "ASSAY_TEST_FETCH"

func TestMain(m *testing.M) {
	name := os.Getenv(childEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	if _, err := ResolveURI(name); err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// TestKilled kills fetching processes at random moments, until one finishes. No snapshot is ever incomplete, every
// blob matches its digest, and little is fetched twice.
func TestKilled(t *testing.T) {
	rounds := 3
	if !testing.Short() {
		long.Test(t)
		rounds = 20
	}
	for round := range rounds {
		repo := checkpoint()
		s := serve(t, repo)
		s.Slow = 2 * time.Millisecond
		cache := filepath.Join(os.Getenv("HF_HOME"), "hub", "models--org--some-model")
		kills := 0
		for {
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), childEnv+"=hf://org/some-model")
			var said strings.Builder
			child.Stderr = &said
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(time.Duration(5+rand.IntN(60))*time.Millisecond*time.Duration(1+kills/8),
				func() { child.Process.Kill() })
			err := child.Wait()
			timer.Stop()
			if dir := filepath.Join(cache, "snapshots", second); exists(dir) {
				sameFiles(t, dir, repo.Commits[second], wanted)
			}
			for name, text := range filesBelowIfAny(t, filepath.Join(cache, "blobs")) {
				if !strings.HasSuffix(name, incomplete) && hubtest.Digest("x", []byte(text)) != name &&
					hubtest.Digest("x.safetensors", []byte(text)) != name {
					t.Errorf("got %d wrong bytes in %s, want the content with this digest", len(text), name)
				}
			}
			if err == nil {
				break
			}
			if said.Len() > 0 || child.ProcessState.ExitCode() != -1 {
				t.Fatalf("got error %v: %s, want a killed process", err, said.String())
			}
			kills++
		}
		var total int64
		for _, name := range wanted {
			total += int64(len(repo.Commits[second][name]))
		}
		t.Logf("round %d: %d kills, %d bytes sent for %d", round, kills, s.Sent(), total)
		s.Close()
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func filesBelowIfAny(t *testing.T, dir string) map[string]string {
	if !exists(dir) {
		return nil
	}
	return filesBelow(t, dir)
}
