package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// Patroni is two PostgreSQL servers, each under a Patroni, and an etcd by which these elect the primary. The standby is
// synchronous.
type Patroni struct {
	t     testing.TB
	nodes []*patroniNode
}

// patroniNode is one Patroni with its PostgreSQL server.
type patroniNode struct {
	t       testing.TB
	process *serverproc.Process
	folder  string
	port    int // of the server
	rest    string
}

var errNotYet = errors.New("not yet")

// StartPatroni runs the servers, waits until the standby is synchronous, and removes everything at the end of the test.
// Without patroni, etcd or PostgreSQL the test is skipped, or fails if ONCEKEY_REQUIRE_SERVERS is set.
func StartPatroni(t testing.TB) *Patroni {
	t.Helper()
	for _, name := range []string{"patroni", "etcd"} {
		if _, err := exec.LookPath(name); err != nil {
			serverproc.Missing(t, name+" not found: install it (Debian: apt-get install patroni etcd-server)")
		}
	}
	etcd := startEtcd(t)
	p := &Patroni{t: t}
	for number, role := range []string{"/primary", "/synchronous"} {
		node := startPatroniNode(t, etcd, number)
		p.nodes = append(p.nodes, node)
		if err := node.process.Await(node.has(role)); err != nil {
			t.Fatalf("postgrestest: %v", err)
		}
	}
	return p
}

// DSN returns the address of the database postgres at the current primary, for a superuser. A client tries both servers.
func (p *Patroni) DSN() string {
	var hosts []string
	for _, node := range p.nodes {
		hosts = append(hosts, net.JoinHostPort("127.0.0.1", strconv.Itoa(node.port)))
	}
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&target_session_attrs=read-write", strings.Join(hosts, ","))
}

// KillPrimary ends the primary and its Patroni at once, as the end of their machine does.
func (p *Patroni) KillPrimary() {
	p.t.Helper()
	for _, node := range p.nodes {
		if serverproc.Probe(node.has("/primary")) == nil {
			node.kill()
			return
		}
	}
	p.t.Fatal("postgrestest: no server is the primary")
}

// startEtcd returns the address for clients.
func startEtcd(t testing.TB) string {
	t.Helper()
	var address string
	var process *serverproc.Process
	serverproc.StartOnFreePort(t, func(port int) error {
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		peers := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(serverproc.FreePort(t)))
		process = serverproc.Start(t, "etcd", exec.CommandContext(context.Background(), "etcd", "--data-dir", serverproc.Folder(t),
			"--listen-client-urls", "http://"+address, "--advertise-client-urls", "http://"+address, "--listen-peer-urls", peers,
			"--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers, "--unsafe-no-fsync"))
		return process.Await(responds("http://" + address + "/health"))
	}, func() bool { return process.PortTaken() })
	return address
}

// responds returns a probe for the status 200.
func responds(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		request.Close = true
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%w: %s is %s", errNotYet, url, response.Status)
		}
		return nil
	}
}

// settingsOfPatroni are the fastest that Patroni accepts. Patroni's own default of ttl is 30.
const settingsOfPatroni = `
scope: records
name: node%d
etcd3: {host: '%s'}
restapi: {listen: '%s', connect_address: '%s'}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: true
    postgresql: {parameters: {max_connections: 200, fsync: 'off', full_page_writes: 'off', shared_buffers: 32MB}}
  initdb: [{encoding: UTF8}, {locale: C}, {auth: trust}, no-sync]
postgresql:
  listen: 127.0.0.1:%d
  connect_address: 127.0.0.1:%d
  data_dir: '%s'
  bin_dir: '%s'
  pgpass: '%s'
  authentication: {superuser: {username: postgres}, replication: {username: postgres}}
  pg_hba: [host all postgres 127.0.0.1/32 trust, host replication postgres 127.0.0.1/32 trust]
  parameters: {unix_socket_directories: '', dynamic_shared_memory_type: mmap}
`

// startPatroniNode runs one Patroni, which makes its server from nothing, or from a copy of the primary.
func startPatroniNode(t testing.TB, etcd string, number int) *patroniNode {
	t.Helper()
	s := &Server{t: t, programs: serverproc.Require(t, findPrograms)}
	s.createFolder()
	n := &patroniNode{t: t, folder: s.folder, port: serverproc.FreePort(t)}
	n.rest = net.JoinHostPort("127.0.0.1", strconv.Itoa(serverproc.FreePort(t)))
	file := filepath.Join(s.folder, "patroni.yml")
	settings := fmt.Sprintf(settingsOfPatroni, number, etcd, n.rest, n.rest, n.port, n.port,
		s.data(), filepath.Dir(s.programs.postgres), filepath.Join(s.folder, "pgpass"))
	if err := errors.Join(os.WriteFile(file, []byte(settings), 0o600), s.account.own(file)); err != nil {
		t.Fatalf("postgrestest: %v", err)
	}
	n.process = serverproc.Start(t, fmt.Sprintf("patroni %d", number), s.command(context.Background(), "patroni", file))
	t.Cleanup(n.kill) // a killed Patroni leaves its server behind
	return n
}

// has returns a probe for a role of Patroni's REST interface.
func (n *patroniNode) has(role string) func(context.Context) error {
	return responds("http://" + n.rest + role)
}

// kill ends Patroni and its server's processes. The server would keep Patroni's output open, so it ends first, while Patroni
// is frozen and does not replace it.
func (n *patroniNode) kill() {
	n.t.Helper()
	n.process.Pause()
	defer n.process.Kill()
	content, err := os.ReadFile(filepath.Join(n.folder, "data", "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	line, _, _ := strings.Cut(string(content), "\n")
	postmaster, err := strconv.Atoi(line)
	if err != nil {
		n.t.Errorf("postgrestest: postmaster.pid: %v", err)
		return
	}
	family, err := children(postmaster)
	family = slices.Insert(family, 0, postmaster)
	if err := errors.Join(err, signalAll(family, syscall.SIGKILL), awaitGone(family)); err != nil {
		n.t.Errorf("postgrestest: kill the server of Patroni: %v", err)
	}
	if err := os.Remove(filepath.Join(n.folder, "data", "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		n.t.Errorf("postgrestest: %v", err)
	}
}
