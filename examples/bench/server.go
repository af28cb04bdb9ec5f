package main

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// server serves its current handler, or a fiber application.
type server struct {
	address string
	handler atomic.Pointer[http.Handler]
	close   func() error
	ended   chan struct{}
}

// serve starts a server on a free loopback port. The function stop ends the server. With an
// app the server is fasthttp's.
func serve(ctx context.Context, app fasthttp.RequestHandler) (*server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{address: listener.Addr().String(), ended: make(chan struct{})}
	var accept func(net.Listener) error
	if app != nil {
		fast := &fasthttp.Server{Handler: app, NoDefaultServerHeader: true}
		accept, s.close = fast.Serve, fast.Shutdown
	} else {
		// A connection of the open loop may wait minutes for its first request.
		standard := &http.Server{ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			(*s.handler.Load()).ServeHTTP(w, r)
		})}
		accept, s.close = standard.Serve, standard.Close
	}
	go func() {
		defer close(s.ended)
		_ = accept(listener) // until stop
	}()
	return s, nil
}

// stop ends the server, after its clients have disconnected.
func (s *server) stop() {
	_ = s.close()
	<-s.ended
}
