// Package llm implements a simulator of LLM services for tests. It speaks the
// Messages API and Chat Completions, with and without streaming, the latter also
// as OpenRouter does (under /api/v1), and the transcription and speech endpoints. It checks requests as strictly as the
// services do, fails on demand with the errors of the services, and records all
// requests. The main type is Server, whose methods may be called from any
// goroutine. The package does not import the code that it tests.
package llm

import (
	"context"
	"crypto/rand"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"hermesd/internal/sim/memnet"
)

// Options configure a Server. The zero Options are a service that knows every
// model, accepts every key and answers with Echo.
type Options struct {
	Keys   []string // accepted keys; none: every non-empty key
	Models []string // existing models; none: every model
	// Windows maps models to the context lengths that the model lists report;
	// for other models they report none.
	Windows map[string]int
	// NumCtx is num_ctx in Ollama's files of models, OllamaContext the length that it
	// gives other models; 0: 4,096.
	NumCtx        map[string]int
	OllamaContext int
	// Outputs maps models to the largest max_tokens that is accepted; for other models
	// it is that of the service, if the simulator knows it.
	Outputs map[string]int
	// Reply makes the answers; nil: Echo.
	Reply func(Request) Reply
	// Hear returns the text of a transcription; nil: the text that Sound put
	// into the file.
	Hear func(Request) string
	// Upload is the maximum size in bytes of a transcription request; 0: 25 MB.
	Upload int
	// FirstByte is the delay before an answer, PerDelta the delay before each
	// delta.
	FirstByte, PerDelta time.Duration
	// ContextTokens is the length in tokens above which requests are refused as
	// the services do; 0: no limit.
	ContextTokens int
	// MinCache is the minimum length in tokens of a marked prefix that is
	// cached; 0: the minimum of the model.
	MinCache int
	// PrefixCheck refuses thinking blocks whose prefix differs from the one
	// that they were made for.
	PrefixCheck bool
	// NoBodies reduces memory use: recorded entries have no Body and no
	// Messages.
	NoBodies bool
}

// A Server is a simulated service. Its methods may be called from any
// goroutine. Close must be called.
type Server struct {
	// URL is the base URL of the server, without a path. For a server made by
	// New it is a name that only its Transport can reach.
	URL string

	*memnet.HTTPServer
	o        Options
	recorder recorder
	cache    cache
	salt     string // makes the call IDs differ from those of other servers

	mu     sync.Mutex // guards the fields below
	faults []*Fault
	loaded map[string]bool // models that Ollama has loaded
}

// New returns a server that is reached through Transport or as an http.Handler.
func New(o Options) *Server {
	if o.Reply == nil {
		o.Reply = Echo
	}
	s := &Server{URL: "http://model.test", o: o, salt: strings.ToLower(rand.Text()[:6])}
	s.HTTPServer = memnet.NewHTTPServer(s)
	s.recorder.arrived = make(chan struct{})
	s.recorder.noBodies = o.NoBodies
	s.cache.entries = make(map[uint64]*entry)
	s.cache.minimum = o.MinCache
	return s
}

// Start returns a server that listens on a free loopback port.
func Start(o Options) (*Server, error) {
	s := New(o)
	var err error
	s.URL, err = s.Listen()
	return s, err
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/messages" && r.Method == http.MethodPost:
		s.serve(w, r, messagesAPI{s})
	case r.URL.Path == "/v1/chat/completions" && r.Method == http.MethodPost:
		s.serve(w, r, chatAPI{s: s})
	case r.URL.Path == "/api/v1/chat/completions" && r.Method == http.MethodPost:
		s.serve(w, r, chatAPI{s: s, router: true})
	case r.URL.Path == "/v1/audio/transcriptions" && r.Method == http.MethodPost:
		s.serveAudio(w, r, listener{chatAPI{s: s}})
	case r.URL.Path == "/v1/audio/speech" && r.Method == http.MethodPost:
		s.serveAudio(w, r, speaker{chatAPI{s: s}})
	case (r.URL.Path == "/v1/models" || strings.HasPrefix(r.URL.Path, "/v1/models/")) && r.Method == http.MethodGet:
		s.models(w, r, strings.TrimPrefix(r.URL.Path[len("/v1/models"):], "/"))
	case r.URL.Path == "/api/show" && r.Method == http.MethodPost:
		s.show(w, r)
	case r.URL.Path == "/api/generate" && r.Method == http.MethodPost:
		s.load(w, r)
	case r.URL.Path == "/api/ps" && r.Method == http.MethodGet:
		s.loadedModels(w)
	default:
		writeJSON(w, http.StatusNotFound, messagesError("not_found_error", "Not Found"))
	}
}

// An api is one of the two model APIs.
type api interface {
	// name is the value of Request.Dialect.
	name() string
	// check parses and validates a request. A refusal contains the error body.
	check(h http.Header, body []byte) (Request, *refusal)
	// answer writes rep as the answer to req.
	answer(o *out, req Request, rep Reply)
	// failure returns an error body in the format of this API.
	failure(status int, text string) any
	// event returns an error as an event of a stream that has already begun.
	event(status int, text string) (name string, body any)
}

// A refusal is an error answer.
type refusal struct {
	status int
	body   any
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, a api) {
	body, err := readAll(r)
	if err != nil {
		return // the client disconnected while it was still sending
	}
	req, no := a.check(r.Header, body)
	req.Dialect, req.Header, req.Body = a.name(), withoutKeys(r.Header), body
	if no == nil && s.o.ContextTokens > 0 && tokens(body) > s.o.ContextTokens {
		no = &refusal{http.StatusBadRequest, tooLong(a.name(), tokens(body), s.o.ContextTokens)}
	}
	fault := s.fault(req)
	e := s.recorder.add(req, fault)
	req.N = e
	o := &out{w: w, ctx: r.Context(), closed: s.Done(), api: a, fault: fault}
	o.flusher, _ = w.(http.Flusher)
	defer func() { s.recorder.finish(e, o.status, o.written) }()
	if fault != nil && fault.instead(o) {
		return
	}
	if no != nil {
		o.json(no.status, no.body)
		return
	}
	rep := s.o.Reply(req)
	rep.Calls = slices.Clone(rep.Calls) // the server fills in missing IDs
	if rep.Fault != nil && fault == nil {
		fault, o.fault = rep.Fault, rep.Fault
		if fault.instead(o) {
			return
		}
	}
	if fault != nil {
		fault.bend(&rep)
	}
	if rep.Status != 0 {
		o.raw(rep.Status, "application/json", rep.Body)
		return
	}
	if !o.wait(max(rep.FirstByte, s.o.FirstByte)) {
		return
	}
	o.perDelta = max(rep.PerDelta, s.o.PerDelta)
	s.cache.count(&rep, req)
	s.recorder.used(e, rep.counted)
	a.answer(o, req, rep)
}

func (s *Server) keyOK(key string) bool {
	if len(s.o.Keys) == 0 {
		return key != ""
	}
	return slices.Contains(s.o.Keys, key)
}

// opus4 matches the models whose output the service limits to 32,000 tokens.
var opus4 = regexp.MustCompile(`^claude-opus-4(-[01])?(-2025[0-9]{4})?$`)

// outputLimit returns the largest max_tokens that model accepts; 0: no limit.
func (s *Server) outputLimit(model string) int {
	if n := s.o.Outputs[model]; n > 0 {
		return n
	}
	if opus4.MatchString(model) {
		return 32_000
	}
	return 0
}

func (s *Server) modelOK(name string) bool {
	return len(s.o.Models) == 0 || slices.Contains(s.o.Models, name)
}

// Requests returns the recorded requests, oldest first.
func (s *Server) Requests() []Entry { return s.recorder.all() }

// Count returns the number of requests received.
func (s *Server) Count() int { return s.recorder.count() }

// Await waits until at least n requests have been received. It fails with the
// cause when ctx ends first.
func (s *Server) Await(ctx context.Context, n int) error { return s.recorder.await(ctx, n) }
