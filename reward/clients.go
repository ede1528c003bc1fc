package reward

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Client is somebody who may call a server, by a bearer token of their own.
type Client struct {
	Name  string  `yaml:"name"`
	Token string  `yaml:"token"`
	Edits float64 `yaml:"edits_per_minute"` // scored or differentiated; 0: without a bound. A minute's worth may come at once
}

// client is a Client as the server keeps it.
type client struct {
	name   string
	digest [sha256.Size]byte // equal lengths for the comparison; the token itself is not kept
	quota  *rate.Limiter     // nil: none
}

// checkClients wants names and tokens of their own.
func checkClients(all []Client) ([]*client, error) {
	var out []*client
	names, tokens := map[string]bool{}, map[string]bool{}
	for i, c := range all {
		switch {
		case c.Name == "" || names[c.Name]:
			return nil, fmt.Errorf("client %d: name %q: want a name of its own", i+1, c.Name)
		case c.Token == "" || tokens[c.Token] || strings.TrimSpace(c.Token) != c.Token:
			return nil, fmt.Errorf("client %s: want a token of its own, without spaces around it", c.Name)
		case c.Edits < 0:
			return nil, fmt.Errorf("client %s: edits_per_minute must not be negative", c.Name)
		}
		names[c.Name], tokens[c.Token] = true, true
		k := &client{name: c.Name, digest: sha256.Sum256([]byte(c.Token))}
		if c.Edits > 0 {
			k.quota = rate.NewLimiter(rate.Limit(c.Edits/60), max(1, int(c.Edits)))
		}
		out = append(out, k)
	}
	return out, nil
}

// who finds the client whose token a request bears; nil if there is none. It takes as long whatever the token is.
func (s *Server) authenticate(r *http.Request) (found *client) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	bearer := strings.EqualFold(scheme, "Bearer") // schemes have no case (RFC 9110, 11.1)
	digest := sha256.Sum256([]byte(token))
	for _, c := range s.clients {
		if subtle.ConstantTimeCompare(digest[:], c.digest[:]) == 1 && bearer {
			found = c
		}
	}
	return found
}

// clientKey is the context's key of a request's client.
type clientKey struct{}

// charge takes edits off the quota of a request's client.
func (s *Server) chargeQuota(ctx context.Context, edits int) error {
	c, _ := ctx.Value(clientKey{}).(*client)
	if c == nil {
		return nil
	}
	if c.quota != nil {
		now := time.Now()
		claim := c.quota.ReserveN(now, edits)
		if !claim.OK() {
			return apiErrorf(http.StatusRequestEntityTooLarge, "too_many", "%d edits are more than the %d a minute of client %s", edits, c.quota.Burst(), c.name)
		}
		if wait := claim.DelayFrom(now); wait > 0 {
			claim.CancelAt(now)
			return &apiError{http.StatusTooManyRequests, "quota", fmt.Sprintf("client %s has used up its %d edits a minute", c.name, c.quota.Burst()), wait}
		}
	}
	s.metrics.edits.WithLabelValues(c.name).Add(float64(edits))
	return nil
}
