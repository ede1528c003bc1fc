package trainer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/goccy/go-yaml"

	"assay/store"
	"assay/trainer/config"
	"assay/trainer/dataset"
)

// program is the digest of the running executable.
var program = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	digest, err := store.FileDigest(path)
	return digest.String()[:32], err
})

// sameRun refuses processes with another program, configuration, backbone or table, or other options.
func (t *Trainer) sameRun(o *Options) error {
	return t.strategy.Same("what is trained", func() (map[string]string, error) {
		digest, err := program()
		var tree map[string]any
		if err == nil {
			err = yaml.Unmarshal([]byte(t.state.Config), &tree)
		}
		if err != nil {
			return nil, err
		}
		facts := map[string]string{
			"program": digest, "architecture": runtime.GOARCH, "trained tensors": t.trains.Digest,
			"--fresh": fmt.Sprint(o.Fresh), "--resume": fmt.Sprint(o.Resume), "--force-resume": fmt.Sprint(o.Force),
		}
		for name, v := range config.Flatten("", tree) {
			if name == "out" || !config.Moved(name, v, v) {
				facts["configuration: "+name] = v
			}
		}
		for name, v := range t.state.Model {
			facts["model: "+name] = v
		}
		for name, v := range t.state.Data {
			facts["data: "+name] = v
		}
		for name, v := range t.state.Benchmark {
			facts[benchmarkPrefix+name] = v
		}
		return facts, nil
	})
}

// sameRows refuses processes that have other rows or parameters.
func (t *Trainer) sameRows() error {
	return t.strategy.Same("rows and parameters", func() (map[string]string, error) {
		facts, err := t.optimizer.Digest()
		if err != nil {
			return nil, err
		}
		for name, part := range map[string]dataset.Examples{"training rows": t.data.Train, "validation rows": t.data.Validation} {
			h := sha256.New()
			if s, ok := part.(*dataset.Samples); ok {
				for i := range s.Rows {
					fmt.Fprintf(h, "%q %q %q %q\n", s.Rows[i].ID, s.Rows[i].Digest, s.Rows[i].Group, s.Rows[i].Bad)
				}
			}
			facts[name] = fmt.Sprintf("%d, %s", part.Len(), hex.EncodeToString(h.Sum(nil))[:32])
		}
		return facts, nil
	})
}
