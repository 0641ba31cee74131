package discord

import (
	"net/http"
	"strings"
)

// Routes of the REST API, for faults and the record of calls. A client inserts
// /api/v9 or /api/v10 between method and path, except for files.
const (
	RouteGateway          = "GET /gateway"
	RouteGatewayBot       = "GET /gateway/bot"
	RouteMe               = "GET /users/@me"
	RouteUser             = "GET /users/{user}"
	RouteMyGuilds         = "GET /users/@me/guilds"
	RouteCreateDM         = "POST /users/@me/channels"
	RouteApplication      = "GET /oauth2/applications/@me"
	RouteGuild            = "GET /guilds/{guild}"
	RouteGuildChannels    = "GET /guilds/{guild}/channels"
	RouteMember           = "GET /guilds/{guild}/members/{user}"
	RouteActiveThreads    = "GET /guilds/{guild}/threads/active"
	RouteChannel          = "GET /channels/{channel}"
	RouteEditChannel      = "PATCH /channels/{channel}"
	RouteDeleteChannel    = "DELETE /channels/{channel}"
	RouteCreateMessage    = "POST /channels/{channel}/messages"
	RouteMessages         = "GET /channels/{channel}/messages"
	RouteMessage          = "GET /channels/{channel}/messages/{message}"
	RouteEditMessage      = "PATCH /channels/{channel}/messages/{message}"
	RouteDeleteMessage    = "DELETE /channels/{channel}/messages/{message}"
	RouteReact            = "PUT /channels/{channel}/messages/{message}/reactions/{emoji}/@me"
	RouteUnreact          = "DELETE /channels/{channel}/messages/{message}/reactions/{emoji}/@me"
	RouteTyping           = "POST /channels/{channel}/typing"
	RouteThreadFrom       = "POST /channels/{channel}/messages/{message}/threads"
	RouteThread           = "POST /channels/{channel}/threads"
	RouteJoinThread       = "PUT /channels/{channel}/thread-members/@me"
	RouteCommands         = "GET /applications/{app}/commands"
	RouteCreateCommand    = "POST /applications/{app}/commands"
	RouteSetCommands      = "PUT /applications/{app}/commands"
	RouteEditCommand      = "PATCH /applications/{app}/commands/{command}"
	RouteDeleteCommand    = "DELETE /applications/{app}/commands/{command}"
	RouteGuildCommands    = "GET /applications/{app}/guilds/{guild}/commands"
	RouteCreateGuildCmd   = "POST /applications/{app}/guilds/{guild}/commands"
	RouteSetGuildCommands = "PUT /applications/{app}/guilds/{guild}/commands"
	RouteEditGuildCmd     = "PATCH /applications/{app}/guilds/{guild}/commands/{command}"
	RouteDeleteGuildCmd   = "DELETE /applications/{app}/guilds/{guild}/commands/{command}"
	RouteCallback         = "POST /interactions/{interaction}/{token}/callback"
	RouteFollowUp         = "POST /webhooks/{app}/{token}"
	RouteGetFollowUp      = "GET /webhooks/{app}/{token}/messages/{message}"
	RouteEditFollowUp     = "PATCH /webhooks/{app}/{token}/messages/{message}"
	RouteDeleteFollowUp   = "DELETE /webhooks/{app}/{token}/messages/{message}"
	RouteFile             = "GET /attachments/{channel}/{file}/{name}"
)

// A route is one method and path of the server.
type route struct {
	name  string
	run   func(*call) (any, *apiError)
	token bool // the path contains a token; no bot token is needed
	open  bool // needs no token
	meter bool // counts against the rate limits
}

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, list := range []map[string]func(*call) (any, *apiError){
		placeRoutes(), messageRoutes(), threadRoutes(), commandRoutes(),
	} {
		for name, run := range list {
			s.handle(mux, route{name: name, run: run, meter: true})
		}
	}
	for name, run := range interactionRoutes() {
		s.handle(mux, route{name: name, run: run, token: true, meter: name != RouteCallback})
	}
	s.handle(mux, route{name: RouteGateway, run: getGateway, token: true})
	s.handle(mux, route{name: RouteFile, run: getFile, open: true})
	none := route{run: func(*call) (any, *apiError) { return nil, refuse(http.StatusNotFound, 0, "404: Not Found") }}
	mux.HandleFunc("/api/{version}/", func(w http.ResponseWriter, r *http.Request) { s.call(w, r, none) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			s.serveGateway(w, r)
			return
		}
		none.open = true
		s.call(w, r, none)
	})
	return mux
}

// handle registers a route in mux.
func (s *Server) handle(mux *http.ServeMux, rt route) {
	method, path, _ := strings.Cut(rt.name, " ")
	if !rt.open {
		path = "/api/{version}" + path
	}
	mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) { s.call(w, r, rt) })
}

func (s *Server) call(w http.ResponseWriter, r *http.Request, rt route) {
	c := &call{s: s, r: r, ctx: r.Context(), life: lifeOf(r.Context(), s.ctx)}
	c.serve(w, rt)
}
