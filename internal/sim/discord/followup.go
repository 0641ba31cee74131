package discord

import (
	"net/http"
	"time"
)

// usableLocked returns the interaction of a follow-up if its token has not
// expired.
func (c *call) usableLocked() (*Interaction, *apiError) {
	i := c.s.inters[c.path("token")]
	switch {
	case i == nil || i.bot.user.ID != c.path("app"):
		return nil, unknown(10015, "Webhook")
	case time.Since(i.began) >= TokenUsable:
		return nil, refuse(http.StatusUnauthorized, 50027, "Invalid Webhook Token")
	case i.acked.IsZero():
		return nil, unknown(10015, "Webhook")
	case c.s.channels[i.ch.id] == nil:
		return nil, unknown(10003, "Channel")
	}
	c.bot = i.bot
	c.s.recorder.note(func(*Counts) { c.rec.Bot, c.rec.Channel = i.bot.user.ID, i.ch.id })
	return i, nil
}

// followUp handles RouteFollowUp. The first follow-up after a deferral replaces
// the deferred message.
func followUp(c *call) (any, *apiError) {
	d, err := c.draft()
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	i, err := c.usableLocked()
	if err != nil {
		return nil, err
	}
	if m := i.answer; m != nil && m.Pending {
		if err := c.completeLocked(m, d); err != nil {
			return nil, err
		}
		return m.wireLocked(c.viewLocked()), nil
	}
	m, err := c.replyLocked(i, d)
	if err != nil {
		return nil, err
	}
	i.more = append(i.more, m)
	return m.wireLocked(c.viewLocked()), nil
}

// completeLocked fills in a deferred message.
func (c *call) completeLocked(m *message, d *draft) *apiError {
	if err := c.changeLocked(m, d, m.ch.permsLocked(c.bot.user)); err != nil {
		return err
	}
	m.Pending, m.Versions, m.Edited = false, nil, time.Time{}
	c.s.recorder.note(func(n *Counts) {
		n.Sent++
		n.Edited--
	})
	return nil
}

// followUpLocked returns the message that the path names.
func (c *call) followUpLocked() (*message, *apiError) {
	i, err := c.usableLocked()
	if err != nil {
		return nil, err
	}
	id := c.path("message")
	for _, m := range append([]*message{i.answer}, i.more...) {
		if m != nil && m.Deleted.IsZero() && (m.ID == id || id == "@original" && m == i.answer) {
			c.s.recorder.note(func(*Counts) { c.rec.Message = m.ID })
			return m, nil
		}
	}
	return nil, unknown(10008, "Message")
}

// getFollowUp handles RouteGetFollowUp.
func getFollowUp(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m, err := c.followUpLocked()
	if err != nil {
		return nil, err
	}
	return m.wireLocked(c.viewLocked()), nil
}

// editFollowUp handles RouteEditFollowUp.
func editFollowUp(c *call) (any, *apiError) {
	d, err := c.draft()
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m, err := c.followUpLocked()
	if err != nil {
		return nil, err
	}
	change := c.completeLocked
	if !m.Pending {
		change = func(m *message, d *draft) *apiError { return c.changeLocked(m, d, m.ch.permsLocked(c.bot.user)) }
	}
	if err := change(m, d); err != nil {
		return nil, err
	}
	return m.wireLocked(c.viewLocked()), nil
}

// deleteFollowUp handles RouteDeleteFollowUp.
func deleteFollowUp(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m, err := c.followUpLocked()
	if err != nil {
		return nil, err
	}
	m.deleteLocked()
	c.s.recorder.note(func(n *Counts) { n.Deleted++ })
	return nil, nil
}
