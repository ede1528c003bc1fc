// Package serve starts servers for tools that measure them, and ends them as Kubernetes does.
package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// Server is a running `score serve`.
type Server struct {
	URL    string // "" of one that was started without --json
	Stderr bytes.Buffer

	process *exec.Cmd
}

// Start starts a command, and waits for the line in which it says where it listens. What it says on stderr is kept, and
// goes to a writer, too.
func Start(ctx context.Context, stderr io.Writer, command ...string) (*Server, error) {
	if len(command) == 0 {
		return nil, errors.New("no command of a server")
	}
	s := &Server{process: exec.CommandContext(ctx, command[0], command[1:]...)}
	s.process.Stderr = io.MultiWriter(&s.Stderr, stderr)
	out, err := s.process.StdoutPipe()
	if err == nil {
		err = s.process.Start()
	}
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("%w: %s%s", errors.Join(err, s.process.Wait()), line, s.Stderr.String())
	}
	var ready struct{ Address, Error string }
	if json.Unmarshal(line, &ready) == nil {
		s.URL = ready.Address
	}
	if ready.Error != "" {
		return nil, errors.Join(errors.New(ready.Error), s.process.Wait())
	}
	return s, nil
}

// Stop ends the server with SIGTERM.
func (s *Server) Stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.process.Wait(); err != nil {
		return fmt.Errorf("the server ended badly: %w: %s", err, s.Stderr.String())
	}
	return nil
}
