package redisstore_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/internal/testkit"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// Case 46: a new connection to a distant server costs more round trips than the
// default StoreTimeout allows. The first requests fail, and open connections for
// later requests.
func TestFarServerIsReached(t *testing.T) {
	t.Parallel()
	address, certificates := startTLS(t)
	proxy := faultproxy.Start(t, address)
	proxy.Set(faultproxy.Latency(180 * time.Millisecond))
	rdb := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(), ContextTimeoutEnabled: true, TLSConfig: &tls.Config{RootCAs: certificates, MinVersion: tls.VersionTLS12},
	})
	defer rdb.Close()
	guard, err := core.New(redisstore.New(rdb), core.SharedScope, core.WithObserver(observe(func(event.Event) {})))
	must(t, err)
	handler := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	key := 0
	ask := func() int {
		key++
		return testkit.Serve(handler, testkit.Post(t.Context(), "/payments", fmt.Sprint("key-", key), "{}")).Code
	}
	// Without its connections no request is ever served. On a busy machine most are late, for
	// a minute and more.
	const enough, most = 8, 500
	for served := 0; served < enough; {
		if ask() == http.StatusCreated {
			served++
		}
		if key == most && served < enough {
			t.Fatalf("%d of %d requests were served, want %d", served, most, enough)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, guard.Shutdown(ctx))
}

// startTLS runs a server behind TLS, and returns its address and its certificate.
func startTLS(t *testing.T) (string, *x509.CertPool) {
	t.Helper()
	server := redistest.Start(t)
	ready := httptest.NewTLSServer(nil) // for its certificate
	ready.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: ready.TLS.Certificates, MinVersion: tls.VersionTLS12})
	must(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			running.Go(func() { unwrapTLS(client, server.Addr()) })
		}
	})
	t.Cleanup(func() { listener.Close(); running.Wait() })
	certificates := x509.NewCertPool()
	certificates.AddCert(ready.Certificate())
	return listener.Addr().String(), certificates
}

// unwrapTLS forwards a connection until a side ends it.
func unwrapTLS(client net.Conn, address string) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer client.Close()
		_, _ = io.Copy(client, server)
	}()
	_, _ = io.Copy(server, client)
}
