package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/engine/summary"
	"hermesd/agent/tool"
	"hermesd/agent/tools/sessionsearch"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/session"
	"hermesd/storage/index"
	"hermesd/storage/index/sessionlibrary"
)

// openIndex opens the full-text index and returns the tool session_search. The index
// is rebuilt from the store whenever it is missing or damaged. Conversations work without
// it: if it cannot be opened, there is no tool.
func (a *App) openIndex() []tool.Tool {
	x, err := index.Open(a.home.Path("search.db"))
	if err != nil {
		x = index.NotOpen()
		a.opts.Log.Error("cannot open search index", zap.Error(err))
		a.opts.Say(fmt.Sprintf("⚠️ past conversations cannot be searched: %v", err))
	}
	a.cleanups = append(a.cleanups, x.Close)
	a.searchIndex, a.indexFollower = x, index.NewFollower(x, a.store, sessionsearch.Name, a.opts.Log)
	a.givesWay.Store(a.indexFollower)
	if err != nil {
		return nil
	}
	l := sessionlibrary.New(x, a.store, platforms.Profiles(), a.indexFollower.Wake)
	if !a.opts.Config.SessionSearch.Summarize {
		return []tool.Tool{sessionsearch.New(l)}
	}
	return []tool.Tool{sessionsearch.NewSummarizing(l, a.summarizer())}
}

// maxSummary limits the summary of one found conversation, in tokens.
const maxSummary = 800

// summarizer returns a function that summarizes found conversations with the model
// for summaries or, if none is configured, with the main model.
func (a *App) summarizer() sessionsearch.Completer {
	e, mask, meter, log := a.opts.Report.Summary, a.opts.Report.Secrets.Mask, a.usage, a.opts.Log
	if e.Provider == "" {
		e = a.opts.Report.Model
	}
	m := summary.NewCompleter(a.models.newProvider(e), e.Model, 0, a.opts.Config.Auxiliary.Compression.Timeout)
	return func(ctx context.Context, id, prompt string) (string, error) {
		out, err := m.Complete(ctx, summary.Request{Prompt: mask(prompt), MaxTokens: maxSummary})
		meter.Charge(session.ID(id), agent.Call{Provider: e.Provider, Model: e.Model, Usage: out.Usage})
		if err != nil {
			log.Warn("cannot summarize found conversation", zap.Error(err))
		}
		return mask(out.Text), err
	}
}

// A spaceGiver gives the space of the index to the store, which is opened before it.
type spaceGiver struct{ atomic.Pointer[index.Follower] }

// giveWay is called by the store, which found the disk full.
func (g *spaceGiver) giveWay() {
	if f := g.Load(); f != nil {
		f.GiveWay()
	}
}

// Search returns a function that searches the messages of all conversations in x. It
// is meant for the operator: no access checks apply.
func Search(x *index.Index) func(context.Context, string, int) ([]admin.Found, error) {
	return func(ctx context.Context, text string, most int) ([]admin.Found, error) {
		hits, err := x.Search(ctx, index.Query{Text: text, Limit: most, Scope: index.OperatorScope()})
		if errors.Is(err, index.ErrNotOpen) {
			err = admin.ErrNoIndex
		}
		var found []admin.Found
		for _, h := range hits[:min(len(hits), most)] {
			found = append(found, admin.Found{Session: h.Session, Row: h.Row, Role: string(h.Role), Time: h.Time, Text: h.Snippet})
		}
		return found, err
	}
}
