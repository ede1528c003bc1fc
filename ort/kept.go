package ort

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"assay/onnx"
)

// KeepEnv is the environment variable with the size of a cache of closed CPU sessions. Opening the same graph over
// the same files with the same options again reuses the cached session. Unset: no cache. Tests open a few graphs
// hundreds of times, and opening one takes up to a second.
const KeepEnv = "ASSAY_KEEP_SESSIONS"

// kept are closed sessions, oldest first.
var kept struct {
	sync.Mutex
	sessions []*Session
}

// keepAtMost returns the size of the cache.
func keepAtMost() int {
	n, err := strconv.Atoi(os.Getenv(KeepEnv))
	if err != nil {
		return 0
	}
	return n
}

// identity is a session's cache key: a digest of the graph, the options, and inode, time and size of the files that it
// refers to. It is empty if the session is not cached.
func identity(m *onnx.Model, o Options) string {
	if keepAtMost() == 0 || o.Profile != "" {
		return ""
	}
	data, err := m.Encode()
	if err != nil { // e.g. lazy tensors
		return ""
	}
	h := sha256.New()
	h.Write(data)
	fmt.Fprintf(h, "%#v %q", o, os.Getenv(SpinEnv))
	seen := map[string]bool{}
	for _, t := range m.Initializers {
		if t.External == nil || seen[t.External.Location] {
			continue
		}
		seen[t.External.Location] = true
		info, err := os.Stat(filepath.Join(o.Folder, filepath.FromSlash(t.External.Location)))
		if err != nil {
			return ""
		}
		stat := info.Sys().(*syscall.Stat_t)
		fmt.Fprintln(h, stat.Dev, stat.Ino, stat.Ctim, stat.Size)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// takeKept removes a closed session from the cache and returns it; nil if there is none with that identity.
func takeKept(id string) *Session {
	kept.Lock()
	defer kept.Unlock()
	for i, s := range kept.sessions {
		if id != "" && s.id == id {
			kept.sessions = append(kept.sessions[:i], kept.sessions[i+1:]...)
			return s
		}
	}
	return nil
}

// keep moves the resources of the session to the cache and evicts the oldest sessions beyond its size. s.mu is held.
func (s *Session) keep() error {
	if s.s == nil || s.id == "" || s.device != cpu.String() {
		return nil
	}
	kept.Lock()
	defer kept.Unlock()
	kept.sessions = append(kept.sessions, &Session{
		name:    s.name,
		device:  s.device,
		inputs:  s.inputs,
		outputs: s.outputs,
		id:      s.id,
		s:       s.s,
		weights: s.weights,
	})
	s.s, s.weights = nil, nil
	var errs []error
	for len(kept.sessions) > keepAtMost() {
		errs = append(errs, kept.sessions[0].free())
		kept.sessions = kept.sessions[1:]
	}
	return errors.Join(errs...)
}

// free releases the resources of the session, if it has any.
func (s *Session) free() error {
	if s.s == nil {
		return nil
	}
	err := errors.Join(s.s.Destroy(), s.weights.release(), s.offDevice())
	s.s, s.weights = nil, nil
	return err
}
