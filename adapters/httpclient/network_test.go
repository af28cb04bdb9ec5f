package httpclient_test

import (
	"bytes"
	"context"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// network is a proxy between the client and the server. It loses, delays and duplicates
// requests and responses, each with a probability of 30 %.
type network struct {
	*httptest.Server
	target string
	seed   uint64
	wire   *http.Transport

	mu       sync.Mutex
	attempts map[string]uint64 // by order
	did      map[string]int    // by fault
}

const (
	share     = 0.3
	longDelay = 20 * time.Millisecond
)

func newNetwork(t *testing.T, target string, seed uint64) *network {
	t.Helper()
	n := &network{
		target: target, seed: seed, attempts: map[string]uint64{}, did: map[string]int{},
		wire: &http.Transport{DisableKeepAlives: true}, // kept connections would cause repetitions by net/http
	}
	n.Server = httptest.NewUnstartedServer(n)
	n.Config.ErrorLog = quiet
	n.Start()
	t.Cleanup(n.Close)
	return n
}

// faults are the faults of one attempt. They depend on the seed, the order and the
// attempt's number, so that a seed reproduces a network.
type faults struct {
	loseRequest, duplicateRequest     bool
	loseResponse, cutResponse         bool
	duplicateResponse, secondResponse bool
	delayRequest, delay, delayAgain   time.Duration
}

func (n *network) faultsOf(order string) faults {
	n.mu.Lock()
	n.attempts[order]++
	attempt := n.attempts[order]
	n.mu.Unlock()

	sum := fnv.New64a()
	sum.Write([]byte(order))
	random := rand.New(rand.NewPCG(n.seed, sum.Sum64()+attempt))
	happens := func(fault string) bool {
		if random.Float64() >= share {
			return false
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.did[fault]++
		return true
	}
	delay := func(fault string) time.Duration {
		if happens(fault) {
			return time.Duration(random.Int64N(int64(longDelay)))
		}
		return 0
	}
	return faults{
		loseRequest: happens("request lost"), duplicateRequest: happens("request duplicated"), delayRequest: delay("request delayed"),
		loseResponse: happens("response lost"), duplicateResponse: happens("response duplicated"), delay: delay("response delayed"),
		cutResponse: random.IntN(2) == 0, secondResponse: random.IntN(2) == 0, delayAgain: time.Duration(random.Int64N(int64(longDelay))),
	}
}

func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	f := n.faultsOf(r.Header.Get("X-Order"))
	if err != nil || f.loseRequest {
		panic(http.ErrAbortHandler)
	}
	responses := make([]*wireResponse, 1, 2)
	var forwarded sync.WaitGroup
	forwarded.Go(func() { responses[0] = n.forward(r, body, f.delayRequest) })
	var second *wireResponse
	if f.duplicateRequest {
		forwarded.Go(func() { second = n.forward(r, body, f.delayAgain) })
	}
	forwarded.Wait()
	response := responses[0]
	if f.duplicateRequest && f.secondResponse {
		response = second
	}
	<-time.After(f.delay)
	response.deliver(w, f)
}

// wireResponse is a response on its way, or nil if the server gave no response.
type wireResponse struct {
	status int
	header http.Header
	body   []byte
}

// forward does not depend on the client's connection: a request under way arrives.
func (n *network) forward(r *http.Request, body []byte, delay time.Duration) *wireResponse {
	<-time.After(delay)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 20*time.Second)
	defer cancel()
	outgoing, err := http.NewRequestWithContext(ctx, r.Method, n.target+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return nil
	}
	outgoing.Header = r.Header.Clone()
	response, err := n.wire.RoundTrip(outgoing)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil
	}
	return &wireResponse{response.StatusCode, response.Header, text}
}

// deliver loses a whole response or its second half. A duplicate follows the response on
// the same connection, which then ends: no client could tell the duplicate from the
// response to its next request.
func (a *wireResponse) deliver(w http.ResponseWriter, f faults) {
	if a == nil || f.loseResponse && !f.cutResponse {
		panic(http.ErrAbortHandler)
	}
	if f.loseResponse {
		a.write(w, a.body[:len(a.body)/2])
		flush(w)
		panic(http.ErrAbortHandler)
	}
	if !f.duplicateResponse {
		a.write(w, a.body)
		return
	}
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer connection.Close()
	for range 2 {
		response := http.Response{
			StatusCode: a.status, Header: a.header.Clone(), Close: true, ProtoMajor: 1, ProtoMinor: 1,
			Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)),
		}
		response.Write(connection)
	}
}

func (a *wireResponse) write(w http.ResponseWriter, part []byte) {
	maps.Copy(w.Header(), a.header) // Content-Length among them
	w.WriteHeader(a.status)
	w.Write(part)
}

// total is the number of attempts that reached the network.
func (n *network) total() (attempts uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, count := range n.attempts {
		attempts += count
	}
	return attempts
}

// expectBad fails the test unless the network had the expected share of faults.
func (n *network) expectBad(t *testing.T) {
	t.Helper()
	total := n.total()
	n.mu.Lock()
	defer n.mu.Unlock()
	for fault := range strings.SplitSeq("request lost,request duplicated,request delayed,response lost,response duplicated,response delayed", ",") {
		if part := float64(n.did[fault]) / float64(total); part < share-0.12 || part > share+0.12 {
			t.Errorf("%s: %d of %d, want 30%%", fault, n.did[fault], total)
		}
	}
}
