package faultproxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that sends each line back.
func echo(t *testing.T) (address string, asked <-chan string) {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	lines := make(chan string, 100)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				reader := bufio.NewReader(connection)
				for {
					line, err := reader.ReadString('\n')
					if err != nil {
						return
					}
					lines <- line
					if _, err := io.WriteString(connection, line); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), lines
}

type caller struct {
	net.Conn
	reader *bufio.Reader
}

func dial(t *testing.T, p *faultproxy.Proxy) *caller {
	t.Helper()
	var dialer net.Dialer
	connection, err := dialer.DialContext(t.Context(), "tcp", p.Addr())
	testkit.Must(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	return &caller{connection, bufio.NewReader(connection)}
}

// ask sends a line and returns the reply within the deadline.
func (c *caller) ask(line string, within time.Duration) (string, error) {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, line); err != nil {
		return "", err
	}
	return c.reader.ReadString('\n')
}

const soon, late = 100 * time.Millisecond, 5 * time.Second

func TestFaults(t *testing.T) {
	t.Parallel()
	address, asked := echo(t)
	p := faultproxy.Start(t, address)

	c := dial(t, p)
	if got, err := c.ask("hello\n", late); err != nil || got != "hello\n" {
		t.Fatalf("a network that works: %q, %v", got, err)
	}
	<-asked

	p.Set(faultproxy.Latency(2 * soon))
	if _, err := c.ask("slow\n", soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("latency: %v", err)
	}
	<-asked

	p.Set(faultproxy.Blackhole())
	c = dial(t, p)
	if _, err := c.ask("lost\n", soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("blackhole: %v", err)
	}
	select {
	case line := <-asked:
		t.Errorf("blackhole: %q went through", line)
	default:
	}
	p.Set(faultproxy.None())
	testkit.Equal(t, <-asked, "lost\n", "the reply after the blackhole")

	p.Set(faultproxy.CutReplies(3))
	c = dial(t, p)
	if got, err := c.ask("halved\n", late); err == nil || got != "hal" {
		t.Errorf("cut: %q, %v", got, err)
	}
	<-asked

	p.Set(faultproxy.LoseReplies())
	c = dial(t, p)
	if got, err := c.ask("done\n", late); err == nil || got != "" {
		t.Errorf("lost: %q, %v", got, err)
	}
	testkit.Equal(t, <-asked, "done\n", "lost: the server's reply")

	p.Set(faultproxy.LoseRequests())
	c = dial(t, p)
	if got, err := c.ask("never\n", late); err == nil || got != "" {
		t.Errorf("lost request: %q, %v", got, err)
	}
	select {
	case line := <-asked:
		t.Errorf("lost request: %q went through", line)
	default:
	}

	p.Set(faultproxy.HoldReplies())
	c = dial(t, p)
	if _, err := c.ask("held\n", soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("held reply: %v", err)
	}
	testkit.Equal(t, <-asked, "held\n", "held reply: the server's reply")

	p.Set(faultproxy.None())
	c = dial(t, p)
	p.Set(faultproxy.Refuse())
	if _, err := c.ask("hello\n", late); err == nil {
		t.Error("refuse: an open connection lives")
	}
	// The reset may arrive before the dial has returned, or after.
	if connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.Addr()); err == nil {
		refused := &caller{connection, bufio.NewReader(connection)}
		t.Cleanup(func() { _ = refused.Close() })
		if _, err := refused.ask("hello\n", late); err == nil {
			t.Error("refuse: a new connection lives")
		}
	}
}

func TestMove(t *testing.T) {
	t.Parallel()
	first, askedFirst := echo(t)
	second, askedSecond := echo(t)
	p := faultproxy.Start(t, first)
	c := dial(t, p)
	if got, err := c.ask("hello\n", late); err != nil || got != "hello\n" {
		t.Fatalf("the first server: %q, %v", got, err)
	}
	<-askedFirst
	p.Move(second)
	if _, err := c.ask("late\n", late); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection to the first server: %v, want it to be reset", err)
	}
	if got, err := dial(t, p).ask("moved\n", late); err != nil || got != "moved\n" {
		t.Fatalf("the second server: %q, %v", got, err)
	}
	select {
	case <-askedSecond:
	case <-askedFirst:
		t.Error("a new connection leads to the first server")
	}
}
