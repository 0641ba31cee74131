package honcho

import (
	"context"
	"net/http"
	"strconv"

	"hermesd/agent/memory/provider"
)

// deleteSession deletes a session unless it has messages that fulfil a filter.
func (c *client) deleteSession(ctx context.Context, name string, foreign object) (deleted bool, err error) {
	n, err := c.count(ctx, name, foreign)
	if err != nil || n > 0 {
		return false, err
	}
	if err = c.change(ctx, http.MethodDelete, "/sessions/"+name, nil, nil); provider.IsMissing(err) {
		err = nil
	}
	return err == nil, err
}

// forgetConversation deletes the session of a conversation if it holds no other one.
func (c *client) forgetConversation(ctx context.Context, s provider.Scope) error {
	deleted, err := c.deleteSession(ctx, c.session(s), object{"NOT": []object{{"metadata": object{conversationKey: s.Session}}}})
	if err == nil && !deleted {
		err = &provider.Error{Class: provider.Refused, Text: "Honcho cannot delete one conversation: its session holds others of the same chat"}
	}
	return err
}

// forgetPerson deletes the sessions in which only a person and the AI have spoken, all
// that was concluded about the person, and their card.
func (c *client) forgetPerson(ctx context.Context, s provider.Scope) error {
	user := c.user(s)
	var names []string
	if err := each(ctx, c, "/peers/"+user+"/sessions", object{"filters": object{}}, func(v struct{ ID string }) { names = append(names, v.ID) }); err != nil {
		return err
	}
	shared := 0
	for _, name := range names {
		deleted, err := c.deleteSession(ctx, clean(name), object{"NOT": []object{{"peer_id": object{"in": []string{user, c.ai}}}}})
		if err != nil {
			return err
		}
		if !deleted {
			shared++
		}
	}
	var ids []string
	if err := c.conclusions(ctx, object{"observed_id": user}, func(k conclusion) { ids = append(ids, k.ID) }); err != nil {
		return err
	}
	if err := c.deleteConclusions(ctx, ids); err != nil {
		return err
	}
	for _, v := range []view{{c.ai, user}, {user, user}} {
		if err := c.setCard(ctx, v, []string{}); err != nil {
			return err
		}
	}
	if shared > 0 {
		return &provider.Error{Class: provider.Refused, Text: "Honcho cannot delete what a person said in a session with others: " + strconv.Itoa(shared) + " are left"}
	}
	return nil
}

// setCard sets the key facts about a peer.
func (c *client) setCard(ctx context.Context, v view, card []string) error {
	path := "/peers/" + v.observer + "/card"
	if q := v.target().Encode(); q != "" {
		path += "?" + q
	}
	var got struct {
		Card []string `json:"peer_card"`
	}
	return c.change(ctx, http.MethodPut, path, object{"peer_card": card}, &got)
}
