package hub

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Hub is a client of an endpoint, with a cache.
type Hub struct {
	Endpoint  string // without a trailing slash
	Token     string // "": none
	Cache     string
	Offline   bool
	NoLinks   bool // snapshots hold files instead of links to blobs
	Monitor   Monitor
	NoWeights bool // skips the weights of checkpoints: a plan only reads their configuration

	loads  bool   // fetched files will be loaded, not only stored
	shown  string // Endpoint without a password
	client *http.Client
	stall  time.Duration // time without data after which a connection is given up
	second time.Duration // unit of waits between attempts; tests shorten it
}

// FromEnvironment reads the variables of huggingface_hub: HF_ENDPOINT, HF_TOKEN (or the file HF_TOKEN_PATH, by default
// HF_HOME/token), HF_HUB_CACHE (by default HF_HOME/hub), HF_HOME (by default ~/.cache/huggingface), HF_HUB_OFFLINE
// and HF_HUB_DISABLE_SYMLINKS.
func FromEnvironment() (*Hub, error) {
	h := &Hub{Endpoint: strings.TrimRight(cmp.Or(os.Getenv("HF_ENDPOINT"), "https://huggingface.co"), "/")}
	u, err := url.Parse(h.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("HF_ENDPOINT=%s: want a URL such as https://huggingface.co", h.Endpoint)
	}
	h.shown = u.Redacted()
	user, _ := os.UserHomeDir()
	home := folderOf("HF_HOME", user)
	if home == "" {
		caches := cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(user, ".cache"))
		if user == "" && !filepath.IsAbs(caches) {
			return nil, errors.New("neither HF_HOME nor HOME is set: there is no folder for the Hub cache")
		}
		home = filepath.Join(caches, "huggingface")
	}
	h.Cache = cmp.Or(folderOf("HF_HUB_CACHE", user), folderOf("HUGGINGFACE_HUB_CACHE", user), filepath.Join(home, "hub"))
	if h.Cache, err = filepath.Abs(h.Cache); err != nil {
		return nil, err
	}
	h.Offline = isTrue(cmp.Or(os.Getenv("HF_HUB_OFFLINE"), os.Getenv("TRANSFORMERS_OFFLINE")))
	h.NoLinks = isTrue(os.Getenv("HF_HUB_DISABLE_SYMLINKS"))
	if !isTrue(os.Getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		h.Token = token(cmp.Or(folderOf("HF_TOKEN_PATH", user), filepath.Join(home, "token")))
	}
	h.stall = 30 * time.Second
	if n, err := strconv.Atoi(os.Getenv("HF_HUB_DOWNLOAD_TIMEOUT")); err == nil && n > 0 {
		h.stall = time.Duration(n) * time.Second
	}
	h.second = time.Second
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	transport.DisableCompression = true // sizes and ranges refer to uncompressed files
	transport.ResponseHeaderTimeout = h.stall
	h.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // ask follows them: the token must not go to other hosts
	}}
	return h, nil
}

// folderOf returns a variable's value with ~ and other variables expanded.
func folderOf(variable, user string) string {
	value := os.Expand(os.Getenv(variable), func(name string) string {
		if value, ok := os.LookupEnv(name); ok {
			return value
		}
		return "$" + name // left as it is, as by Python's expandvars
	})
	if rest, ok := strings.CutPrefix(value, "~"); ok && (rest == "" || rest[0] == '/') {
		return user + rest
	}
	return value
}

func isTrue(value string) bool {
	switch strings.ToUpper(value) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// token returns the token from the environment, or from the file that `hf auth login` writes.
func token(file string) string {
	value := cmp.Or(os.Getenv("HF_TOKEN"), os.Getenv("HUGGING_FACE_HUB_TOKEN"))
	if value == "" {
		text, _ := os.ReadFile(file)
		value = string(text)
	}
	return strings.TrimSpace(strings.NewReplacer("\r", "", "\n", "").Replace(value))
}
