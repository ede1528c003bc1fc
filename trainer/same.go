package trainer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"

	"assay/store"

	"github.com/goccy/go-yaml"
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
	return t.strategy.same("what is trained", func() (map[string]string, error) {
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
		for name, v := range flatten("", tree) {
			if name == "out" || !moved(name, v, v) {
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
	return t.strategy.same("rows and parameters", func() (map[string]string, error) {
		facts, err := t.optimizer.digest()
		if err != nil {
			return nil, err
		}
		for name, part := range map[string]Examples{"training rows": t.data.Train, "validation rows": t.data.Validation} {
			h := sha256.New()
			if s, ok := part.(*Samples); ok {
				for i := range s.rows {
					fmt.Fprintf(h, "%q %q %q %q\n", s.rows[i].id, s.rows[i].digest, s.rows[i].group, s.rows[i].bad)
				}
			}
			facts[name] = fmt.Sprintf("%d, %s", part.Len(), hex.EncodeToString(h.Sum(nil))[:32])
		}
		return facts, nil
	})
}

// digest is that of all parameters.
func (o *optimizer) digest() (map[string]string, error) {
	h, b := sha256.New(), make([]byte, 0, 4<<12)
	for _, p := range o.params {
		for part := range slices.Chunk(p.Floats(), 1<<12) {
			b = b[:0]
			for _, v := range part {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
			}
			h.Write(b)
		}
	}
	return map[string]string{"parameters": hex.EncodeToString(h.Sum(nil))[:32]}, nil
}
