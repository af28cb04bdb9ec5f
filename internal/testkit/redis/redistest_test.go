package redistest

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStartedServerAnswers(t *testing.T) {
	t.Parallel()
	server := Start(t)
	expectAnswer(t, server, "PING", "+PONG")
	expectAnswer(t, server, "DBSIZE", ":0")
	if location, err := url.Parse(server.URL()); err != nil || location.Host != server.Addr() || location.Path != "/0" {
		t.Errorf("the URL is %q, want database 0 at %s", server.URL(), server.Addr())
	}
}

func TestArgumentsReachTheServer(t *testing.T) {
	t.Parallel()
	server := Start(t, "--maxmemory", "7mb", "--maxmemory-policy", "allkeys-lru")
	expectAnswer(t, server, "CONFIG GET maxmemory", "*2", "$9", "maxmemory", "$7", "7340032")
	expectAnswer(t, server, "CONFIG GET maxmemory-policy", "*2", "$16", "maxmemory-policy", "$11", "allkeys-lru")
}

func TestTwoServersShareNothing(t *testing.T) {
	t.Parallel()
	one, other := Start(t), Start(t)
	expectAnswer(t, one, "SET owner one", "+OK")
	expectAnswer(t, other, "GET owner", "$-1")
	one.Kill()
	expectAnswer(t, other, "PING", "+PONG")
}

func TestDataSurvivesOnlyWherePersistenceWasAskedFor(t *testing.T) {
	t.Parallel()
	kept, lost := []string{"$5", "money"}, []string{"$-1"}
	type test struct {
		arguments []string
		end       func(*Server)
		want      []string
	}
	testkit.Each(t, map[string]test{
		"persistent, killed":        {Persistent(), (*Server).Kill, kept},
		"persistent, stopped":       {Persistent(), (*Server).Stop, kept},
		"persistent, restarted":     {Persistent(), func(*Server) {}, kept},
		"not persistent, killed":    {nil, (*Server).Kill, lost},
		"not persistent, stopped":   {nil, (*Server).Stop, lost},
		"not persistent, restarted": {nil, func(*Server) {}, lost},
	}, func(t *testing.T, test test) {
		server := Start(t, test.arguments...)
		address := server.Addr()
		expectAnswer(t, server, "SET key money", "+OK")
		test.end(server)
		server.Restart()
		if server.Addr() != address {
			t.Errorf("the server moved from %s to %s", address, server.Addr())
		}
		expectAnswer(t, server, "GET key", test.want...)
	})
}

func TestKilledServerRefusesConnections(t *testing.T) {
	t.Parallel()
	server := Start(t)
	server.Kill()
	var refused *net.OpError
	if err := server.Ping(t.Context()); !errors.As(err, &refused) || refused.Op != "dial" {
		t.Errorf("PING gives %v, want the dial to fail", err)
	}
}

func TestPausedServerAcceptsAndDoesNotAnswer(t *testing.T) {
	t.Parallel()
	server := Start(t)
	server.Pause()

	impatient, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := server.Ping(impatient)
	if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "PING") {
		t.Errorf("PING gives %v, want no answer on a connection that was accepted", err)
	}

	server.Resume()
	expectAnswer(t, server, "PING", "+PONG")
}

func TestPausedServerRestarts(t *testing.T) {
	t.Parallel()
	server := Start(t)
	server.Pause()
	server.Restart()
	expectAnswer(t, server, "PING", "+PONG")
}

func TestEndingIsIdempotent(t *testing.T) {
	t.Parallel()
	server := Start(t)
	server.Pause()
	server.Stop()
	server.Stop()
	server.Kill()
	server.Pause()
	server.Resume()
}

func TestAnotherServerOnThePortIsNotTakenForOurs(t *testing.T) {
	t.Parallel()
	server := Start(t)
	limited, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	testkit.Fails(t, "ping", server.ping(limited, os.Getpid()), nil, "another server")
}

func TestTakenPortIsRecognized(t *testing.T) {
	t.Parallel()
	first, second := Start(t), Start(t)
	second.Stop()
	second.port = first.port
	if err := second.launch(); err == nil || !second.process.PortTaken() {
		t.Errorf("a second server on the same port gives %v, want the port to be recognized as taken", err)
	}
}

func TestVersionOlderThanTheOldestSupportedIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ banner, complaint string }{
		{"Redis server v=7.0.0 sha=00000000:0 malloc=libc bits=64 build=1", ""},
		{"Redis server v=8.2.1 sha=00000000:1 malloc=jemalloc-5.3.0 bits=64 build=1", ""},
		{"Redis server v=10.0.0 sha=00000000:0", ""},
		{"Valkey server v=8.0.2 sha=00000000:0", ""},
		{"Redis server v=6.2.14 sha=00000000:0", "redis-server 6.2.14 is too old: 7.0 is the oldest"},
		{"command not understood", "no version that can be read"},
	}
	for _, test := range tests {
		err := checkVersion(test.banner)
		if test.complaint == "" && err != nil {
			t.Errorf("%q gives %v, want no error", test.banner, err)
		}
		if test.complaint != "" && (err == nil || !strings.Contains(err.Error(), test.complaint)) {
			t.Errorf("%q gives %v, want %q", test.banner, err, test.complaint)
		}
	}
}

func TestMissingBinarySaysWhatToInstall(t *testing.T) {
	t.Parallel()
	_, err := locate(t.TempDir() + "/redis-server")
	if err == nil || !strings.Contains(err.Error(), "apt-get install redis-server") {
		t.Errorf("the error is %v, want the name of the package to install", err)
	}
}

// expectAnswer sends one command on a new connection and compares the lines of the reply.
func expectAnswer(t *testing.T, server *Server, command string, want ...string) {
	t.Helper()
	dialer := net.Dialer{Timeout: 5 * time.Second}
	connection, err := dialer.DialContext(t.Context(), "tcp", server.Addr())
	testkit.Must(t, err)
	defer connection.Close()
	testkit.Must(t, connection.SetDeadline(time.Now().Add(5*time.Second)))
	if _, err := connection.Write([]byte(command + "\r\n")); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(connection)
	for _, line := range want {
		got, err := reader.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: no reply: %v", command, err)
		}
		if strings.TrimSuffix(got, "\r\n") != line {
			t.Errorf("the reply to %s is %q, want %q", command, got, line)
		}
	}
}
