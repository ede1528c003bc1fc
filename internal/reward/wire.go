package reward

import (
	"net/http"
	"strings"
	"sync/atomic"
)

// wire is a protocol of the server.
type wire interface{ routes() []route }

// route is a path of a wire. The error that answer returns is written as JSON.
type route struct {
	method, path string
	answer       func(http.ResponseWriter, *http.Request) error
}

// backend is what wires answer with.
type backend struct {
	engine   *engine
	bodies   *bodies
	maxItems int // of a request
}

// newWires lists the protocols.
func newWires(b *backend, draining *atomic.Bool, models []NamedModel) []wire {
	return []wire{
		&scoreWire{b},
		&gradientWire{b},
		&chatWire{b, models, make(chan struct{}, mostChats)},
		&uniRLWire{b, draining},
		&probeWire{b.engine.scorers, draining},
	}
}

// countItems checks that there is at least one item, and at most maxItems.
func (b *backend) countItems(what string, n int) error {
	if n > b.maxItems {
		return tooMany("%d %s, at most %d are taken at a time", n, what, b.maxItems)
	}
	if n == 0 {
		return badRequest("%s is empty: at least one is wanted", what)
	}
	return nil
}

// maxInstruction bounds instructions, in bytes.
const maxInstruction = 8 << 10

// prefixError prefixes the message of an error.
func prefixError(what string, err error) error {
	f := *toAPIError(err)
	f.Message = what + ": " + f.Message
	return &f
}

func checkInstruction(text string) error {
	if strings.TrimSpace(text) == "" {
		return badRequest("instruction is missing: what the edit was to do")
	}
	if len(text) > maxInstruction {
		return badRequest("instruction: %d bytes, at most %d are taken", len(text), maxInstruction)
	}
	return nil
}
