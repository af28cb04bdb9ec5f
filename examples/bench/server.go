package main

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// server serves its current handler.
type server struct {
	address string
	handler atomic.Pointer[http.Handler]
	close   func() error
	ended   chan struct{}
}

// serve starts a server on a free loopback port. The function stop ends the server.
func serve(ctx context.Context) (*server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{address: listener.Addr().String(), ended: make(chan struct{})}
	// A connection may wait minutes for its first request.
	serving := &http.Server{ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*s.handler.Load()).ServeHTTP(w, r)
	})}
	s.close = serving.Close
	go func() {
		defer close(s.ended)
		_ = serving.Serve(listener) // until stop
	}()
	return s, nil
}

// stop ends the server, after its clients have disconnected.
func (s *server) stop() {
	_ = s.close()
	<-s.ended
}
