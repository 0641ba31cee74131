package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"go.uber.org/zap"

	"hermesd/agent/llm/catalog"
	"hermesd/agent/llm/retry"
	"hermesd/agent/llm/tokens"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
)

// contextLengthsKey is the key under which the store keeps the context lengths that
// providers have reported.
const contextLengthsKey = "windows"

// minContextLength is the smallest context length, in tokens, that an agent can work
// with.
const minContextLength = 16_000

// contextLengths resolves the context lengths of models. It is safe for concurrent
// use.
type contextLengths struct {
	a       *App
	table   *tokens.Table
	learned *tokens.LearnedLengths
}

// openContextLengths loads the built-in table, the user's models.json, which
// overrides it, and the lengths learned earlier.
func (a *App) openContextLengths(ctx context.Context) error {
	w := &contextLengths{a: a, table: tokens.Builtin()}
	file := a.home.Path("models.json")
	if f, err := os.Open(file); err == nil {
		defer func() { _ = f.Close() }() // read only
		if w.table, err = w.table.With(f); err != nil {
			return &config.Error{Problems: []config.Problem{{File: file, Text: err.Error()}}}
		}
	} else if !os.IsNotExist(err) {
		return err
	}
	var before map[string]int
	raw, err := a.store.Value(ctx, contextLengthsKey)
	if err != nil {
		return err
	}
	if len(raw) > 0 && json.Unmarshal(raw, &before) != nil {
		a.opts.Log.Warn("stored context lengths are damaged and ignored")
	}
	w.learned = tokens.NewLearnedLengths(before)
	a.lengths = w
	return w.check()
}

// check returns an error if the context length of the main model is too small.
func (w *contextLengths) check() error {
	main := w.a.opts.Report.Model
	n, from := w.resolve(main, w.a.opts.Config.Model.ContextLength)
	switch {
	case main.Provider == "demo":
	case n < minContextLength:
		return &chat.ConfigError{Platform: "model", Reason: fmt.Sprintf("%s takes %d tokens (%s), fewer than the %d an agent needs: set model.context_length if that is wrong, or choose another model", main.Model, n, from, minContextLength)}
	}
	return nil
}

// fetchReported asks the providers for the context lengths of all models for which
// the operator has not set one. It runs concurrently with the start; reported
// lengths apply from the next turn on. That a provider does not report one is not an
// error.
func (w *contextLengths) fetchReported(ctx context.Context) {
	queried := map[string]bool{}
	for _, e := range append(slices.Clone(w.a.models.endpoints), w.a.opts.Report.Summary) {
		name := e.Model + "@" + e.BaseURL
		n, from := w.resolve(e, w.configured(e))
		if e.BaseURL == "" || queried[name] || from == tokens.FromConfig || from == tokens.FromCustom {
			continue
		}
		queried[name] = true
		reported, err := catalog.ContextLength(ctx, catalog.Query{Provider: e.Provider, Model: e.Model, BaseURL: e.BaseURL, Key: e.APIKey})
		model := zap.String("model", modelName(e))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			w.setReported(ctx, e, reported)
		case from == tokens.FromFallback:
			w.a.opts.Log.Warn("context length of the model is unknown, assuming 128,000 tokens; set model.context_length", model, zap.String("err", w.a.opts.Report.Secrets.Mask(err.Error())))
		default:
			w.a.opts.Log.Debug("provider does not report the context length, keeping the known one", model, zap.Int("tokens", n), zap.String("err", w.a.opts.Report.Secrets.Mask(err.Error())))
		}
	}
}

// setReported stores the context length that a provider has reported.
func (w *contextLengths) setReported(ctx context.Context, e config.Endpoint, n int) {
	model, before := zap.String("model", modelName(e)), w.lengthOf(e)
	if !w.learned.SetReported(e.Model, e.BaseURL, n) {
		return
	}
	w.save(ctx)
	if now := w.lengthOf(e); now != before {
		w.a.opts.Log.Info("provider reported a context length", model, zap.Int("tokens", now), zap.Int("before", before))
	}
	if err := w.check(); err != nil {
		w.a.opts.Log.Error("next start will fail", zap.Error(err))
	}
}

// save stores what was learned for the next start.
func (w *contextLengths) save(ctx context.Context) {
	raw, err := json.Marshal(w.learned.All())
	if err == nil {
		err = w.a.store.SetValue(ctx, contextLengthsKey, raw)
	}
	if err != nil {
		w.a.opts.Log.Error("cannot save context lengths", zap.Error(err))
	}
}

func (w *contextLengths) resolve(e config.Endpoint, configured int) (int, tokens.Source) {
	return w.table.Resolve(tokens.Query{Model: e.Model, BaseURL: e.BaseURL, Config: configured, Custom: w.a.opts.Config.ContextOf(e)}, w.learned)
}

// configured returns the context length that the configuration sets for the model
// itself, or 0.
func (w *contextLengths) configured(e config.Endpoint) int {
	main, summary := w.a.opts.Report.Model, w.a.opts.Report.Summary
	switch {
	case e.Model == main.Model && e.Provider == main.Provider && w.a.opts.Config.Model.ContextLength > 0:
		return w.a.opts.Config.Model.ContextLength
	case e == summary:
		return w.a.opts.Config.Auxiliary.Compression.ContextLength
	}
	return 0
}

// lengthOf returns the context length of e in tokens.
func (w *contextLengths) lengthOf(e config.Endpoint) int {
	n, _ := w.resolve(e, w.configured(e))
	return n
}

// outputLimits returns what keeps the output limits of the models of e's service.
func (w *contextLengths) outputLimits(e config.Endpoint) retry.OutputLimits { return outputLimits{w, e} }

type outputLimits struct {
	w *contextLengths
	e config.Endpoint
}

// OutputLimit implements retry.OutputLimits.
func (o outputLimits) OutputLimit(model string) int { return o.w.learned.Output(model, o.e.BaseURL) }

// SetOutputLimit implements retry.OutputLimits.
func (o outputLimits) SetOutputLimit(model string, tokens int) {
	if o.w.learned.SetOutput(model, o.e.BaseURL, tokens) {
		o.w.a.opts.Log.Info("learned an output limit from an error", zap.String("model", o.e.Provider+"/"+model), zap.Int("tokens", tokens))
		o.w.save(context.Background())
	}
}

// setFromError stores a limit that an error of the provider named.
func (w *contextLengths) setFromError(provider, model string, limit int) {
	for _, e := range w.a.models.endpoints {
		if e.Provider != provider {
			continue
		}
		e.Model = model
		if !w.learned.SetFromError(model, e.BaseURL, limit, w.lengthOf(e)) {
			return
		}
		w.a.opts.Log.Info("learned a context length from an error", zap.String("model", provider+"/"+model), zap.Int("tokens", limit))
		w.save(context.Background())
		return
	}
}
