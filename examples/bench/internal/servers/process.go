// Package servers starts the servers that are measured: a Redis and a PostgreSQL
// of its own, on free ports of the loopback interface, with empty folders.
//
//	server, err := servers.StartRedis(ctx)
//	if errors.Is(err, servers.ErrMissing) { ... } // it is not installed
//	defer server.Stop()
//
// They answer as production servers would: PostgreSQL waits for its disk. Redis
// keeps nothing, because its disk is not what is compared.
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

// errEnded is wrapped by the errors of servers that end before they answer.
var errEnded = errors.New("it has ended")

// errOther says that another program has the port: the server is about to end.
var errOther = errors.New("another server listens on its port")

// ErrMissing is wrapped by the errors of servers that are not installed.
var ErrMissing = errors.New("not installed")

const (
	startDeadline = 60 * time.Second
	stopDeadline  = 20 * time.Second
	pause         = 20 * time.Millisecond // between two looks whether it answers
	startAttempts = 5                     // each on another port: a server whose port is taken ends
)

// process is a server that runs in a folder of its own.
type process struct {
	command *exec.Cmd
	folder  string
	ended   chan struct{}
	ending  os.Signal // asks it to end
}

// start runs the command until Stop, and waits until the server answers.
func start(ctx context.Context, command *exec.Cmd, folder string, ending os.Signal, answers func(context.Context) error) (*process, error) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	dieWithParent(command.SysProcAttr)
	command.SysProcAttr.Setpgid = true // an interrupt at the terminal is for this program alone, which ends its servers
	p := &process{command: command, folder: folder, ended: make(chan struct{}), ending: ending}
	if err := command.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	go func() {
		defer close(p.ended)
		_ = command.Wait() // how it ended is of no interest: that it did is
	}()
	if err := p.await(ctx, answers); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s: %w", command.Path, err)
	}
	return p, nil
}

func (p *process) await(ctx context.Context, answers func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	for {
		err := answers(ctx)
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

// startOnFreePort starts a server on a free port. Another program can take the port before the server does: then the
// server ends, and is started on another one.
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
