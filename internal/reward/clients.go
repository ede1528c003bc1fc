package reward

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"assay/internal/strictyaml"
)

// Client is a client with its own bearer token.
type Client struct {
	Name  string `yaml:"name"`
	Token string `yaml:"token"` // at least eight characters
	// Edits is the quota of edits per minute that may be scored or differentiated; 0: no quota. A minute's quota may
	// be used at once.
	Edits float64 `yaml:"edits_per_minute"`
}

// minToken is the minimum length of a token in characters: shorter ones can be guessed.
const minToken = 8

// client is a Client in the form that the server keeps.
type client struct {
	name   string
	digest [sha256.Size]byte // digests have equal lengths for the comparison; the token itself is not kept
	quota  *rate.Limiter     // nil: none
}

// ParseClients parses a YAML file with a list clients. Its errors name file, line and key.
func ParseClients(file string, raw []byte) ([]Client, error) {
	var content struct {
		Clients []Client `yaml:"clients"`
	}
	d := strictyaml.Decode(file, raw, &content)
	if len(content.Clients) == 0 && !d.Bad("clients") {
		d.Problem("clients", "want a list of clients, each with name and token")
	}
	for i, c := range content.Clients {
		if key := fmt.Sprintf("clients[%d].edits_per_minute", i); d.Has(key) && c.Edits == 0 && !d.Bad(key) {
			d.Problem(key, "want more than 0 edits per minute; omit the key for a client without a quota")
		}
	}
	if err := CheckClients(content.Clients, ""); err != nil && !d.Bad("clients") {
		d.Problem("clients", "%v", err)
	}
	return content.Clients, d.Err()
}

// CheckClients checks that names and tokens are unique and tokens long enough. token is the token of unnamed clients;
// "": none.
func CheckClients(all []Client, token string) error {
	_, err := newClients(all, token)
	return err
}

// clients are the clients accepted by a server.
type clients struct {
	all   []*client // empty: anyone on this machine has access
	edits *prometheus.CounterVec
}

func newClients(all []Client, token string) (*clients, error) {
	out := &clients{}
	names, tokens := map[string]bool{}, map[string]bool{}
	add := func(who string, c Client) error {
		switch {
		case c.Token == "" || tokens[c.Token] || strings.TrimSpace(c.Token) != c.Token:
			return fmt.Errorf("%s: want a unique token without spaces around it", who)
		case utf8.RuneCountInString(c.Token) < minToken:
			return fmt.Errorf("%s: want a token of at least %d characters: one of %d can be guessed",
				who, minToken, utf8.RuneCountInString(c.Token))
		case c.Edits < 0:
			return fmt.Errorf("%s: edits_per_minute must not be negative", who)
		}
		names[c.Name], tokens[c.Token] = true, true
		k := &client{name: c.Name, digest: sha256.Sum256([]byte(c.Token))}
		if c.Edits > 0 {
			k.quota = rate.NewLimiter(rate.Limit(c.Edits/60), max(1, int(c.Edits)))
		}
		out.all = append(out.all, k)
		return nil
	}
	if token != "" {
		if err := add("the bearer token", Client{Name: "token", Token: token}); err != nil {
			return nil, err
		}
	}
	for i, c := range all {
		if c.Name == "" || names[c.Name] {
			return nil, fmt.Errorf("client %d: name %q: want a unique name", i+1, c.Name)
		}
		if err := add("client "+c.Name, c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// authenticate returns the client with the bearer token of a request; nil if there is none. It takes constant time.
func (c *clients) authenticate(r *http.Request) (found *client) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	bearer := strings.EqualFold(scheme, "Bearer") // schemes are case-insensitive (RFC 9110, 11.1)
	digest := sha256.Sum256([]byte(token))
	for _, one := range c.all {
		if subtle.ConstantTimeCompare(digest[:], one.digest[:]) == 1 && bearer {
			found = one
		}
	}
	return found
}

// clientKey is the context key for a request's client.
type clientKey struct{}

// charge subtracts edits from the quota of a request's client.
func (c *clients) charge(ctx context.Context, edits int) error {
	by, _ := ctx.Value(clientKey{}).(*client)
	if by == nil {
		return nil
	}
	if by.quota != nil {
		now := time.Now()
		claim := by.quota.ReserveN(now, edits)
		if !claim.OK() {
			return tooMany("%d edits are more than the %d per minute of client %s", edits, by.quota.Burst(), by.name)
		}
		if wait := claim.DelayFrom(now); wait > 0 {
			claim.CancelAt(now)
			return &apiError{
				Status:     http.StatusTooManyRequests,
				Kind:       "quota",
				Message:    fmt.Sprintf("client %s has used up its %d edits per minute", by.name, by.quota.Burst()),
				RetryAfter: wait,
			}
		}
	}
	c.edits.WithLabelValues(by.name).Add(float64(edits))
	return nil
}

// payer returns whose memory share a request uses: the client's or, if all clients share one token or none, the
// remote host's.
func (c *clients) payer(r *http.Request) string {
	if by, _ := r.Context().Value(clientKey{}).(*client); by != nil && len(c.all) > 1 {
		return by.name
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
