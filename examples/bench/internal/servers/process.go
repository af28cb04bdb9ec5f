// Package servers starts the measured servers: Redis, PostgreSQL, MySQL and MariaDB on free ports of
// the loopback interface, with empty folders.
//
//	server, err := servers.StartRedis(ctx)
//	if errors.Is(err, servers.ErrMissing) { ... } // the program is not installed
//	defer server.Stop()
//
// The servers behave like production servers: PostgreSQL, MySQL and MariaDB wait for their disk. Redis
// persists no data, because the benchmark does not compare Redis' disk.
package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// errEnded is wrapped by the errors of servers that end before they respond.
var errEnded = errors.New("the server has ended")

// errOther reports that another program has the port: the server is about to end.
var errOther = errors.New("another server listens on the port")

// ErrMissing is wrapped by the errors of servers that are not installed.
var ErrMissing = errors.New("not installed")

const (
	startDeadline = 60 * time.Second
	stopDeadline  = 20 * time.Second
	pause         = 20 * time.Millisecond // between two checks whether the server responds
	startAttempts = 5                     // each on another port, because a server whose port is taken ends
)

// process is a server that runs in a folder of its own.
type process struct {
	command *exec.Cmd
	folder  string
	ended   chan struct{}
	ending  os.Signal // asks the server to end
}

// start runs the command until Stop, and waits until the server responds.
func start(ctx context.Context, command *exec.Cmd, folder string, ending os.Signal, responds func(context.Context) error) (*process, error) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	dieWithParent(command.SysProcAttr)
	command.SysProcAttr.Setpgid = true // an interrupt at the terminal reaches only this program, which ends its servers
	p := &process{command: command, folder: folder, ended: make(chan struct{}), ending: ending}
	if err := command.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	go func() {
		defer close(p.ended)
		_ = command.Wait() // only the end of the process matters, not its status
	}()
	if err := p.await(ctx, responds); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s: %w", command.Path, err)
	}
	return p, nil
}

func (p *process) await(ctx context.Context, responds func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	for {
		err := responds(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%w: %w", errEnded, err)
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// Stop ends the server, and removes its folder.
func (p *process) Stop() {
	_ = p.command.Process.Signal(p.ending)
	select {
	case <-p.ended:
	case <-time.After(stopDeadline):
		_ = p.command.Process.Kill()
		<-p.ended
	}
	_ = os.RemoveAll(p.folder)
}

// startOnFreePort starts a server on a free port. If another program takes the port first,
// the server ends, and startOnFreePort tries another port.
func startOnFreePort[S any](ctx context.Context, start func(port int) (S, error)) (server S, err error) {
	for range startAttempts {
		var port int
		if port, err = freePort(ctx); err != nil {
			return server, err
		}
		if server, err = start(port); !errors.Is(err, errEnded) {
			return server, err
		}
	}
	return server, err
}

// freePort finds a port on which no program listens.
func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("listening on %v, which is no TCP address", listener.Addr())
	}
	return address.Port, nil
}
