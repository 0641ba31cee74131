package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"go.uber.org/zap"

	"hermesd/agent/llm/tokens"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
)

// windowsKey is where the store keeps what providers have told of their models.
const windowsKey = "windows"

// leastWindow is the smallest context with which an agent is of use.
const leastWindow = 16_000

// windows knows how many tokens models can take.
type windows struct {
	a       *App
	table   *tokens.Table
	learned *tokens.Learned
}

// openWindows reads the table, the user's own table over it, and what was
// learned before.
func (a *App) openWindows(ctx context.Context) error {
	w := &windows{a: a, table: tokens.Builtin()}
	file := a.home.Path("models.json")
	if f, err := os.Open(file); err == nil {
		defer func() { _ = f.Close() }() // it was only read
		if w.table, err = w.table.With(f); err != nil {
			return &config.Error{Problems: []config.Problem{{File: file, Text: err.Error()}}}
		}
	} else if !os.IsNotExist(err) {
		return err
	}
	var before map[string]int
	raw, err := a.store.Value(ctx, windowsKey)
	if err != nil {
		return err
	}
	if len(raw) > 0 && json.Unmarshal(raw, &before) != nil {
		a.o.Log.Warn("what was learned of models' context lengths is damaged and was set aside")
	}
	w.learned = tokens.NewLearned(before)
	a.windows = w
	return w.check()
}

// check refuses a main model that is too small, and warns of a guess.
func (w *windows) check() error {
	main := w.a.o.Report.Model
	n, from := w.resolve(main, w.a.o.Config.Model.ContextLength)
	switch {
	case main.Provider == "demo":
	case n < leastWindow:
		return &chat.ConfigError{Platform: "model", Reason: fmt.Sprintf("%s takes %d tokens (%s), fewer than the %d an agent needs: set model.context_length if that is wrong, or choose another model", main.Model, n, from, leastWindow)}
	case from == tokens.FromNowhere:
		w.a.o.Log.Warn("the context length of the model is not known; 128,000 is assumed: set model.context_length", zap.String("model", main.Model))
	}
	return nil
}

func (w *windows) resolve(e config.Endpoint, said int) (int, tokens.Source) {
	return w.table.Resolve(tokens.Question{Model: e.Model, BaseURL: e.BaseURL, Config: said}, w.learned)
}

// of is how many tokens e takes.
func (w *windows) of(e config.Endpoint) int {
	said := 0
	if main := w.a.o.Report.Model; e.Model == main.Model && e.Provider == main.Provider {
		said = w.a.o.Config.Model.ContextLength
	}
	n, _ := w.resolve(e, said)
	return n
}

// learn keeps a limit that an error named.
func (w *windows) learn(provider, model string, limit int) {
	for _, e := range w.a.models.endpoints {
		if e.Provider != provider {
			continue
		}
		e.Model = model
		if !w.learned.Refused(model, e.BaseURL, limit, w.of(e)) {
			return
		}
		w.a.o.Log.Info("learned the context length of a model", zap.String("model", provider+"/"+model), zap.Int("tokens", limit))
		raw, err := json.Marshal(w.learned.All())
		if err == nil {
			err = w.a.store.SetValue(context.Background(), windowsKey, raw)
		}
		if err != nil {
			w.a.o.Log.Error("context length", zap.Error(err))
		}
		return
	}
}
