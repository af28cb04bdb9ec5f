package availability

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
	"github.com/oncekey/oncekey/policy"
)

const (
	// redisURL is set in a process of the deployed service only, whose program is this test's
	// binary.
	redisURL = "ONCEKEY_AVAILABILITY_REDIS"
	// instances is the number of processes.
	instances = 4
	// drain is how long a process that is told to end still serves. The balancer's last
	// connections to it are then accepted: those that wait in a closed listener are lost.
	drain = 300 * time.Millisecond
	// work is how long every tenth handler runs, so that some run whenever a process ends.
	work = 4 * drain
	// largest bounds a request that the balancer may send again.
	largest = 1 << 20
	// effectsName is the hash in Redis that counts the effects of each key.
	effectsName = "effects"
)

// serve is the program of a process: both services, and an orderly end.
func serve() error {
	options, err := redis.ParseURL(os.Getenv(redisURL))
	if err != nil {
		return err
	}
	// An increment that a busy machine delays is neither given up nor sent again.
	options.ContextTimeoutEnabled, options.ReadTimeout, options.MaxRetries = true, patience, -1
	client := redis.NewClient(options)
	defer client.Close()
	effectIn := func(name string) write {
		return func(ctx context.Context, key string) error {
			if strings.HasSuffix(key, "1") {
				wait(work)
			}
			return client.HIncrBy(ctx, name, key, 1).Err()
		}
	}
	engine, err := core.New(redisstore.New(client), core.SharedScope, core.WithObserver(event.Log(slog.New(slog.DiscardHandler))))
	if err != nil {
		return err
	}
	guard := engine.Handler(pay(effectIn(effectsName)), policy.LockTTL(lease))
	mux := http.NewServeMux()
	mux.Handle("POST /guarded", guard)
	mux.Handle("POST /bare", pay(effectIn("without guard")))
	server := &http.Server{Handler: mux, ReadTimeout: patience}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Printf("listening on %s\n", listener.Addr())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	wait(drain)
	ending, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(server.Shutdown(ending), engine.Shutdown(ending))
}

// deploy replaces four processes behind a balancer, one by one. The balancer learns of the
// new process first, and then forgets the old one, which is told to end, and shuts down while
// its handlers run.
func deploy(t *testing.T, _ time.Duration) scenario {
	t.Helper()
	server := redistest.Start(t)
	front := new(balancer)
	var old []*serverproc.Process
	for range instances {
		old = append(old, front.add(t, server.URL()))
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme = "http" }, Transport: front,
	})
	t.Cleanup(proxy.Close)
	client := service.Redis(t, redis.Options{Addr: server.Addr()})
	return scenario{
		name:    "a rolling deploy of four processes on Redis, with `Engine.Shutdown`",
		guarded: through(proxy.Client(), proxy.URL+"/guarded"),
		bare:    through(proxy.Client(), proxy.URL+"/bare"),
		strike: func(*load) time.Time {
			began := time.Now()
			for _, process := range old {
				front.add(t, server.URL())
				front.remove()
				process.Stop()
				if err := process.Wait(); err != nil {
					t.Errorf("a process that was told to end: %v", err)
				}
			}
			return began
		},
		orderly: true,
		effects: func(t *testing.T) map[string]int {
			t.Helper()
			counts := make(map[string]int)
			all, err := client.HGetAll(t.Context(), effectsName).Result()
			testkit.Must(t, err)
			for key, text := range all {
				if counts[key], err = strconv.Atoi(text); err != nil {
					t.Fatal(err)
				}
			}
			return counts
		},
	}
}

// TestDeployInShort is the deploy with less traffic around it.
func TestDeployInShort(t *testing.T) {
	t.Parallel()
	measure(t, deploy(t, 0), time.Second/2, time.Second/2)
}

// through sends requests over the network.
func through(client *http.Client, url string) post {
	return func(ctx context.Context, key string) answer {
		r := request(ctx, url, key)
		r.RequestURI = ""
		response, err := client.Do(r)
		if err != nil {
			return answer{}
		}
		defer response.Body.Close()
		a := read(response)
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, largest))
		return a
	}
}

// balancer sends requests to processes in turns. One whose process refuses the connection
// goes to the next process, as haproxy does with "option redispatch".
type balancer struct {
	mutex     sync.Mutex
	addresses []string
	turn      int
}

var listening = regexp.MustCompile(`^listening on (\S+)$`)

// add starts a process, and sends requests to it once it serves.
func (b *balancer) add(t *testing.T, redis string) *serverproc.Process {
	t.Helper()
	command := exec.CommandContext(context.Background(), os.Args[0])
	command.Env = append(os.Environ(), redisURL+"="+redis)
	process := serverproc.Start(t, "the deployed service", command)
	address := process.AwaitLine(listening)[1]
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.addresses = append(b.addresses, address)
	return process
}

// remove sends no more requests to the oldest process.
func (b *balancer) remove() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.addresses = b.addresses[1:]
}

func (b *balancer) next() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.turn++
	return b.addresses[b.turn%len(b.addresses)]
}

// toProcesses makes the connections of the balancer: a new one for each request.
var toProcesses = &http.Transport{DisableKeepAlives: true}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(r *http.Request) (response *http.Response, err error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, largest))
	if err != nil {
		return nil, err
	}
	for range instances {
		again := r.Clone(r.Context())
		again.URL.Host, again.Body = b.next(), io.NopCloser(bytes.NewReader(body))
		response, err = toProcesses.RoundTrip(again)
		var refused *net.OpError
		if !errors.As(err, &refused) || refused.Op != "dial" {
			break
		}
	}
	return response, err
}
