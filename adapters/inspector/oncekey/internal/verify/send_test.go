package verify

import (
	"bufio"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// ledger counts the requests whose whole body came, and how many handlers saw their client go.
type ledger struct{ whole, gone atomic.Int64 }

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !strings.HasSuffix(string(body), "}") {
		return
	}
	l.whole.Add(1)
	w.WriteHeader(http.StatusCreated)
	_ = http.NewResponseController(w).Flush()
	select {
	case <-r.Context().Done():
		l.gone.Add(1)
	case <-time.After(30 * time.Second):
	}
}

// A cut connection carries the whole request to the server once, and the server sees it end, over TLS too.
func TestCutConnections(t *testing.T) { // not parallel: the root certificate is in the environment
	l := new(ledger)
	plain := httptest.NewServer(l)
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(l)
	t.Cleanup(secure.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	testkit.Must(t, os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	t.Setenv("SSL_CERT_FILE", roots)
	n := int64(0)
	for _, address := range []string{plain.URL, secure.URL} {
		for _, length := range []int{10, 2000, 4000, 4096, 100_000} { // net/http buffers 4096 bytes, and TLS writes less at a time
			for _, when := range []cut{beforeResponse, inResponse} {
				n++
				name := fmt.Sprintf("%s, %d bytes, cut %d", address, length, when)
				target := &Target{KeyHeader: "Idempotency-Key"}
				r, err := target.request(http.MethodPost, address, "k", []byte(`{"a":"`+strings.Repeat("x", length)+`"}`), CutBefore)
				testkit.Must(t, err)
				seen := (&sender{timeout: 20 * time.Second}).send(t.Context(), r, when)
				if want := map[cut]int{beforeResponse: 0, inResponse: http.StatusCreated}[when]; seen.Status != want || !seen.cut {
					t.Errorf("%s: the status is %d (%s), want %d", name, seen.Status, seen.failed, want)
				}
				testkit.Await(t, "for the server to see the end: "+name, func() bool { return l.whole.Load() == n && l.gone.Load() == n })
			}
		}
	}
}

// The limit of requests holds for requests that are sent at the same time, too.
func TestTake(t *testing.T) {
	t.Parallel()
	s := &sender{left: 3}
	if s.take(2) != nil || s.take(2) == nil || s.take(1) != nil || s.take(1) == nil {
		t.Errorf("%d requests are left, want none after 3", s.left)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	if key := newKey(); len(key) != 36 || key[14] != '4' || key == newKey() {
		t.Errorf("the key is %s, want a new UUID of version 4", key)
	}
	testkit.Equal(t, len(keyOf(longestKey)), 255, "characters of the longest key")
}

// A connection that is cut in the response is reset: the server's next read or write fails.
func TestReset(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { listener.Close() })
	ended := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			ended <- err
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(25 * time.Second))
		reader := bufio.NewReader(conn)
		_, err = http.ReadRequest(reader)
		if err == nil {
			_, err = io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\n")
		}
		if err == nil {
			_, err = reader.ReadByte()
		}
		ended <- err
	}()
	r, err := (&Target{KeyHeader: "Idempotency-Key"}).request(http.MethodPost, "http://"+listener.Addr().String(), "k", nil, CutInResponse)
	testkit.Must(t, err)
	seen := (&sender{timeout: 20 * time.Second}).send(t.Context(), r, inResponse)
	if err := <-ended; !errors.Is(err, syscall.ECONNRESET) || seen.Status != http.StatusCreated {
		t.Errorf("the client read %d (%s), and the server got %v, want a reset", seen.Status, seen.failed, err)
	}
}
