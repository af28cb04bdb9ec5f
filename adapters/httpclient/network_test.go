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

// network is between the client and the server. It loses, delays and duplicates
// requests and answers, each of these with 30 of 100.
type network struct {
	*httptest.Server
	target string
	seed   uint64
	wire   *http.Transport

	mu       sync.Mutex
	attempts map[string]uint64 // by order
	did      map[string]int    // by what was done
}

const (
	share     = 0.3
	longDelay = 20 * time.Millisecond
)

func newNetwork(t *testing.T, target string, seed uint64) *network {
	t.Helper()
	n := &network{
		target: target, seed: seed, attempts: map[string]uint64{}, did: map[string]int{},
		wire: &http.Transport{DisableKeepAlives: true}, // or it would send requests again by itself
	}
	n.Server = httptest.NewUnstartedServer(n)
	n.Config.ErrorLog = quiet
	n.Start()
	t.Cleanup(n.Close)
	return n
}

// faults are what happens to one attempt. They follow from the seed, the order and
// the attempt's number, so that a seed makes the same network again.
type faults struct {
	loseRequest, duplicateRequest   bool
	loseAnswer, cutAnswer           bool
	duplicateAnswer, secondAnswer   bool
	delayRequest, delay, delayAgain time.Duration
}

func (n *network) faultsOf(order string) faults {
	n.mu.Lock()
	n.attempts[order]++
	attempt := n.attempts[order]
	n.mu.Unlock()

	sum := fnv.New64a()
	sum.Write([]byte(order))
	random := rand.New(rand.NewPCG(n.seed, sum.Sum64()+attempt))
	happens := func(what string) bool {
		if random.Float64() >= share {
			return false
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.did[what]++
		return true
	}
	delay := func(what string) time.Duration {
		if happens(what) {
			return time.Duration(random.Int64N(int64(longDelay)))
		}
		return 0
	}
	return faults{
		loseRequest: happens("request lost"), duplicateRequest: happens("request duplicated"), delayRequest: delay("request delayed"),
		loseAnswer: happens("answer lost"), duplicateAnswer: happens("answer duplicated"), delay: delay("answer delayed"),
		cutAnswer: random.IntN(2) == 0, secondAnswer: random.IntN(2) == 0, delayAgain: time.Duration(random.Int64N(int64(longDelay))),
	}
}

func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	f := n.faultsOf(r.Header.Get("X-Order"))
	if err != nil || f.loseRequest {
		panic(http.ErrAbortHandler)
	}
	answers := make([]*wireAnswer, 1, 2)
	var forwarded sync.WaitGroup
	forwarded.Go(func() { answers[0] = n.forward(r, body, f.delayRequest) })
	var second *wireAnswer
	if f.duplicateRequest {
		forwarded.Go(func() { second = n.forward(r, body, f.delayAgain) })
	}
	forwarded.Wait()
	answer := answers[0]
	if f.duplicateRequest && f.secondAnswer {
		answer = second
	}
	<-time.After(f.delay)
	answer.deliver(w, f)
}

// wireAnswer is an answer on its way; nil when the server gave none.
type wireAnswer struct {
	status int
	header http.Header
	body   []byte
}

// forward does not ask whether the client still waits: what is under way arrives.
func (n *network) forward(r *http.Request, body []byte, delay time.Duration) *wireAnswer {
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
	return &wireAnswer{response.StatusCode, response.Header, text}
}

// deliver loses an answer as a whole or in its middle. A duplicate follows the
// answer on its connection, which ends there: no client can tell the duplicate
// from the answer to its next request.
func (a *wireAnswer) deliver(w http.ResponseWriter, f faults) {
	if a == nil || f.loseAnswer && !f.cutAnswer {
		panic(http.ErrAbortHandler)
	}
	if f.loseAnswer {
		a.write(w, a.body[:len(a.body)/2])
		flush(w)
		panic(http.ErrAbortHandler)
	}
	if !f.duplicateAnswer {
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

func (a *wireAnswer) write(w http.ResponseWriter, part []byte) {
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

// expectBad fails the test unless the network was as bad as it should be.
func (n *network) expectBad(t *testing.T) {
	t.Helper()
	total := n.total()
	n.mu.Lock()
	defer n.mu.Unlock()
	for what := range strings.SplitSeq("request lost,request duplicated,request delayed,answer lost,answer duplicated,answer delayed", ",") {
		if part := float64(n.did[what]) / float64(total); part < share-0.12 || part > share+0.12 {
			t.Errorf("%s: %d of %d, want 30%%", what, n.did[what], total)
		}
	}
}
