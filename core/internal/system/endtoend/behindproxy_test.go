package endtoend

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// proxyPage has the configurations, so that users copy settings that were run.
const proxyPage = "../../../../docs/deploy.md"

// reverseProxies start a proxy from its configuration in proxyPage.
var reverseProxies = map[string]func(t *testing.T, configuration string) *exec.Cmd{
	"nginx": func(t *testing.T, configuration string) *exec.Cmd {
		t.Helper()
		folder := t.TempDir()
		frame := "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
		for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			frame += name + "_temp_path " + name + ";\n"
		}
		file := write(t, folder, frame+configuration+"}\n")
		return exec.CommandContext(context.Background(), requireProgram(t, "nginx"), "-e", "stderr", "-p", folder, "-c", file)
	},
	"haproxy": func(t *testing.T, configuration string) *exec.Cmd {
		t.Helper()
		return exec.CommandContext(context.Background(), requireProgram(t, "haproxy"), "-db", "-f", write(t, t.TempDir(), configuration))
	},
}

func requireProgram(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	serverproc.Missing(t, fmt.Sprintf("%s is not installed: install the package %[1]s", name))
	return ""
}

func write(t *testing.T, folder, text string) string {
	t.Helper()
	file := filepath.Join(folder, "proxy.conf")
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// documented returns the configuration of a proxy in proxyPage.
func documented(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(proxyPage)
	testkit.Must(t, err)
	_, rest, found := strings.Cut(string(page), "```"+name+"\n")
	configuration, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("%s has no block of %s", proxyPage, name)
	}
	return configuration
}

// behind is two processes behind a proxy. Its instance is the proxy, as clients see it.
type behind struct {
	*instance
	f    *fixture
	pods []*instance
}

// startBehind starts a proxy, with other settings than the page's in pairs of old and new.
func startBehind(t *testing.T, f *fixture, name string, settings ...string) *behind {
	t.Helper()
	b := &behind{instance: &instance{t: t}, f: f, pods: []*instance{f.startOnPort("chi"), f.startOnPort("gin")}}
	serverproc.StartOnFreePort(t, func(port int) error {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		all := append([]string{
			"pod1:8080", strings.TrimPrefix(b.pods[0].url, "http://"), "pod2:8080", strings.TrimPrefix(b.pods[1].url, "http://"),
			"listen 8000", "listen " + address, "bind :8000", "bind " + address,
		}, settings...)
		configuration := strings.NewReplacer(all...).Replace(documented(t, name))
		b.Process = serverproc.Start(t, name, reverseProxies[name](t, configuration))
		b.url = "http://" + address
		return b.Await(func(ctx context.Context) error {
			connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			return connection.Close()
		})
	}, func() bool { return b.printed("Address already in use") || b.printed("cannot bind socket") })
	return b
}

// startOnPort starts a process on a port that it gets again after a restart.
func (f *fixture) startOnPort(router string) (i *instance) {
	f.t.Helper()
	serverproc.StartOnFreePort(f.t, func(port int) error {
		i = f.launch(router, "-addr", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		return i.Await(func(context.Context) error {
			if !i.printed("listening on ") {
				return fmt.Errorf("no port yet")
			}
			i.awaitListening()
			return nil
		})
	}, func() bool { return i.printed("address already in use") })
	return i
}

// The settings of docs/deploy.md, with real proxies. The processes are examples/payments on
// one Redis.
func TestBehindAProxy(t *testing.T) {
	t.Parallel()
	for name := range reverseProxies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, map[string]func(t *testing.T, name string){
				"body too large": testLargeBody, "slower than the proxy's time": testProxyTimeout,
				"killed in the handler": testKilledBehindAProxy, "restarts under load": testRestartsBehindAProxy,
			}, func(t *testing.T, run func(t *testing.T, name string)) {
				run(t, name)
			})
		})
	}
}

// Case 68: the guard's 413 reaches the client, and not a 502 of the proxy.
func testLargeBody(t *testing.T, name string) {
	b := startBehind(t, newFixture(t, time.Minute), name)
	large := payment("tok_ok")
	large.body += strings.Repeat(" ", 3<<20)
	for _, body := range []io.Reader{strings.NewReader(large.body), io.MultiReader(strings.NewReader(large.body))} {
		b.sendBody(t.Context(), large, body).expect(t, want{status: http.StatusRequestEntityTooLarge, code: "body_too_large"})
	}
	b.send(payment("tok_ok")).expect(t, created)
}

// Case 71: the proxy gives up, and repeats the request at the other process. The client
// needs retries, and gets the first run's response.
func testProxyTimeout(t *testing.T, name string) {
	b := startBehind(t, newFixture(t, time.Minute), name, "60s", "2s")
	slow := payment("tok_slow:5s")
	b.send(slow).expect(t, inProgress)
	b.retryWhile(slow, inProgress).expect(t, replayed)
	if charges := b.f.effects(); len(charges) != 1 {
		t.Errorf("%d charges, want one: %+v", len(charges), charges)
	}
}

// Cases 3 and 71: the process dies with the request, and the proxy repeats it at the other
// process. The lease blocks that one.
func testKilledBehindAProxy(t *testing.T, name string) {
	b := startBehind(t, newFixture(t, 4*time.Second), name)
	slow := payment("tok_slow:3s")
	answers := make(chan answer, 1)
	go func() { answers <- b.send(slow) }()
	runner := -1
	testkit.Await(t, "for the handler to run", func() bool {
		for i, pod := range b.pods {
			if pod.attempts() > 0 {
				runner = i
			}
		}
		return runner >= 0
	})
	b.pods[runner].Kill()
	(<-answers).expect(t, inProgress)
	b.retryWhile(slow, inProgress).expect(t, created)
	b.f.expectEffects(chargeBy(b.pods[1-runner], slow, 2))
}

// Case 71 in a rolling deploy: clients that retry get each payment done, once.
func testRestartsBehindAProxy(t *testing.T, name string) {
	const clients = 6
	b := startBehind(t, newFixture(t, time.Minute), name)
	load, stop := context.WithCancel(t.Context())
	defer stop()
	var group sync.WaitGroup
	paid := make([]int, clients)
	for c := range clients {
		group.Go(func() {
			for load.Err() == nil {
				pay := payment("tok_slow:20ms").withKey(fmt.Sprintf("key-%d-%d", c, paid[c]))
				if !testkit.Poll(patience, func() bool { got := b.send(pay); return got.is(created) || got.is(replayed) }) {
					t.Errorf("%s was not paid in %s", pay.key, patience)
					return
				}
				paid[c]++
			}
		})
	}
	for range 2 {
		for i, pod := range b.pods {
			before := len(b.f.effects())
			pod.Stop() // by SIGTERM
			testkit.Await(t, "for payments by the other process", func() bool { return len(b.f.effects()) > before+clients })
			b.pods[i] = b.f.launch([]string{"chi", "gin"}[i], "-addr", strings.TrimPrefix(pod.url, "http://"))
			b.pods[i].awaitListening()
		}
	}
	stop()
	group.Wait()
	charged := map[string]int{}
	for _, e := range b.f.effects() {
		charged[e.Key]++
		if charged[e.Key] > 1 {
			t.Errorf("%s was charged twice", e.Key)
		}
	}
	total := 0
	for _, n := range paid {
		total += n
	}
	testkit.Equal(t, len(charged), total, "charged payments, and those confirmed")
}
