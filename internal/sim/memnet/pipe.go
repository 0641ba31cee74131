// Package memnet implements network connections in memory, which work inside a
// testing/synctest bubble too. Transport passes HTTP requests directly to a
// handler; answers are streamed, and connections can break. HTTPServer owns the
// goroutines of such requests. Listen and Conns
// provide whole connections for servers that speak more than HTTP, such as
// websockets.
package memnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// A Transport is an http.RoundTripper that calls Handler. A handler that panics
// with http.ErrAbortHandler breaks the connection.
type Transport struct {
	Handler http.Handler
	// Begin runs a request on another goroutine, for which the owner of the
	// Transport waits. It reports false, and runs nothing, after the owner was
	// closed.
	Begin func(func()) bool
}

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	pr, pw := io.Pipe()
	w := &writer{header: make(http.Header), pw: pw, ready: make(chan struct{})}
	req := r.Clone(ctx)
	if req.Body == nil {
		req.Body = http.NoBody
	}
	begun := t.Begin(func() {
		defer cancel()
		defer func() { w.end(recover()) }()
		defer func() { _ = req.Body.Close() }() // closing a reader has no useful error
		t.Handler.ServeHTTP(w, req)
	})
	if !begun {
		cancel()
		return nil, errors.New("simulated connection: the server is closed")
	}
	select {
	case <-w.ready:
	case <-r.Context().Done():
	}
	if err := r.Context().Err(); err != nil {
		// As on a network, a caller that canceled gets no answer, even if the
		// handler has already given one.
		cancel()
		_ = pr.Close() // never fails; the handler must not wait for a reader
		return nil, fmt.Errorf("simulated connection: %w", err)
	}
	if w.broken {
		cancel()
		return nil, fmt.Errorf("simulated connection: %w", io.ErrUnexpectedEOF)
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &body{PipeReader: pr, ctx: r.Context(), cancel: cancel}, ContentLength: -1, Request: r,
	}, nil
}

// A writer is the server's end of a simulated connection.
type writer struct {
	header, sent http.Header
	status       int
	broken       bool // the connection broke before the answer began
	pw           *io.PipeWriter
	ready        chan struct{}
	once         sync.Once
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) Flush() {}

func (w *writer) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.ready)
	})
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	n, err := w.pw.Write(p)
	if err != nil {
		return n, fmt.Errorf("simulated connection: %w", err)
	}
	return n, nil
}

// end closes the connection after the handler returned, or breaks it if the
// handler panicked with http.ErrAbortHandler.
func (w *writer) end(panicked any) {
	if panicked == nil {
		w.WriteHeader(http.StatusOK)
		_ = w.pw.Close() // never fails
		return
	}
	w.once.Do(func() {
		w.broken = true
		close(w.ready)
	})
	_ = w.pw.CloseWithError(io.ErrUnexpectedEOF) // never fails
	if panicked != http.ErrAbortHandler {        //nolint:errorlint // the value of a panic is not wrapped
		panic(panicked)
	}
}

// A body is the client's end of an answer.
type body struct {
	*io.PipeReader
	ctx    context.Context
	cancel context.CancelFunc
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.PipeReader.Read(p)
	if err != nil && b.ctx.Err() != nil {
		return n, b.ctx.Err()
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
