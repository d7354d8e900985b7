/* Generated from docs/openapi.json by `npm run docs`. */

export interface paths {
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The process is running */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Success */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            status: string;
                        };
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Database, blob store and queue answer
         * @description With METRICS_TOKEN as `Authorization: Bearer …` the response also has the state of each part.
         */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Success */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            /** @enum {string} */
                            status: "ready" | "not ready";
                        } & {
                            [key: string]: string;
                        };
                    };
                };
                /** @description Answer */
                503: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            /** @enum {string} */
                            status: "ready" | "not ready";
                        } & {
                            [key: string]: string;
                        };
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/version": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The version of the service */
        get: operations["getVersion"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/register": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Create an account, and its organization unless it is invited to one
         * @description With `invitation_token` the account joins the organization that sent the invitation; if SIGNUP is `invited` it is required (403 without it). After 1000 registrations from a client within 15 minutes the answer is 429. One with an address that has an account counts 10 times.
         */
        post: operations["postAuthRegister"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sign in with a password
         * @description Opens the organization used last. After 10 failed sign-ins for an address, or 50 from a client, within 15 minutes the answer is 429.
         */
        post: operations["postAuthLogin"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/refresh": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Exchange a refresh token for new tokens
         * @description Each refresh token is used once. Two tabs may use one at the same time: both get new tokens, and the first of these that is used ends the other. A token that comes back more than 30 seconds after it was used ends the session.
         */
        post: operations["postAuthRefresh"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The current user */
        get: operations["getAuthMe"];
        /**
         * Change your name
         * @description If an account of the identity provider is linked, its name is used again after the next sign-in there.
         */
        put: operations["putAuthMe"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/password": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Change the password
         * @description All other sessions are signed out.
         */
        put: operations["putAuthPassword"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End this session */
        post: operations["postAuthLogout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Your sessions in all your organizations
         * @description The one used last comes first. A session is used when it is opened and when its tokens are refreshed.
         */
        get: operations["getAuthSessions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * End one of your sessions
         * @description Its tokens stop working immediately. It may be the session of this request.
         */
        delete: operations["deleteAuthSessionsById"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/organizations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The organizations you belong to */
        get: operations["getAuthOrganizations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/switch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Open another of your organizations */
        post: operations["postAuthSwitch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/idp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Sign in at the identity provider
         * @description Errors come back to FRONTEND_URL as `#error=<code>`:
         *
         *     - `access_denied`: The person or the provider refused.
         *     - `invalid_state`: The sign-in was not started in this browser, or its answer was used before. Start again.
         *     - `state_expired`: The sign-in took more than ten minutes. Start again.
         *     - `provider_unavailable`: The provider does not answer, or its address is not allowed. The log has the cause.
         *     - `provider_error`: The answer of the provider is not valid: another issuer, for example. The log has the cause.
         *     - `email_missing`: The provider gave no email address. Request it with IDP_SCOPE, or let the person make their address public there.
         *     - `email_not_verified`: An account with this address exists, and the provider has not verified the address. Sign in with the password and link the provider.
         *     - `already_linked`: The account is already linked to another account of the provider. Unlink that one first.
         *     - `identity_taken`: This account of the provider is linked to another person.
         *     - `signup_closed`: New accounts are by invitation only. Open the link of your invitation and sign in from there, or ask for one.
         *     - `invitation_invalid`: New accounts are by invitation only, and this invitation is unknown, expired, cancelled or used. Ask for a new one.
         */
        get: operations["getAuthIdp"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/idp/callback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Where the identity provider sends the browser back
         * @description Redirects to FRONTEND_URL with `#access_token=…&refresh_token=…&expires_in=…&token_type=bearer`, followed by `&invitation=…` if the sign-in started with one, or with `#linked=true` after linking. Errors come back to FRONTEND_URL as `#error=<code>`:
         *
         *     - `access_denied`: The person or the provider refused.
         *     - `invalid_state`: The sign-in was not started in this browser, or its answer was used before. Start again.
         *     - `state_expired`: The sign-in took more than ten minutes. Start again.
         *     - `provider_unavailable`: The provider does not answer, or its address is not allowed. The log has the cause.
         *     - `provider_error`: The answer of the provider is not valid: another issuer, for example. The log has the cause.
         *     - `email_missing`: The provider gave no email address. Request it with IDP_SCOPE, or let the person make their address public there.
         *     - `email_not_verified`: An account with this address exists, and the provider has not verified the address. Sign in with the password and link the provider.
         *     - `already_linked`: The account is already linked to another account of the provider. Unlink that one first.
         *     - `identity_taken`: This account of the provider is linked to another person.
         *     - `signup_closed`: New accounts are by invitation only. Open the link of your invitation and sign in from there, or ask for one.
         *     - `invitation_invalid`: New accounts are by invitation only, and this invitation is unknown, expired, cancelled or used. Ask for a new one.
         */
        get: operations["getAuthIdpCallback"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/link/idp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Link an account of the identity provider to yours
         * @description Sets a cookie that the same browser brings back, so call it from the page that then goes to `redirect_url`.
         */
        get: operations["getAuthLinkIdp"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/unlink/idp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Unlink the account of the identity provider
         * @description Needs a password, because otherwise there would be no way left to sign in.
         */
        delete: operations["deleteAuthUnlinkIdp"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organization": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The current organization */
        get: operations["getOrganization"];
        /**
         * Rename the organization
         * @description Needs the permission `organization:write`.
         */
        put: operations["putOrganization"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/organization/transfer-ownership": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make another member the owner
         * @description The old owner becomes an admin.
         *
         *     Needs the permission `organization:transfer`.
         */
        post: operations["postOrganizationTransferOwnership"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/{id}/run": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run a pipeline now
         * @description Runs of one pipeline execute one after another.
         *
         *     Needs the permission `pipelines:run`.
         */
        post: operations["postPipelinesByIdRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/{id}/backfill": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Read a range of the cursor again
         * @description A run of `triggered_by` backfill: records whose cursor is at least `from` and below `to` are read and upserted, and the state of the pipeline stays as it is. The pipeline must be incremental with upsert.
         *
         *     Needs the permission `pipelines:run`.
         */
        post: operations["postPipelinesByIdBackfill"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/{id}/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Runs of a pipeline
         * @description Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesByIdRuns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/{id}/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * How the runs of a pipeline went
         * @description Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesByIdStats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/activity": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The last runs of many pipelines
         * @description A few fields of each run, for strips and charts, with the last success and the next run.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesActivity"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Runs of all pipelines
         * @description Newest first. For the next page give the id of the last run as `before`.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getRuns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One run
         * @description Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesRunsByRunId"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The configuration that a run used
         * @description As it was resolved when the run was triggered, saved connectors included; secrets read ******** for everybody, and so do the query of an address and all texts and numbers in the settings of a custom source. Without connectors:read, of a saved connector there is only its id and what the pipeline overrides. It is kept as long as the run; if a pipeline had more than 100 different ones, only its last 100 runs keep theirs. 404 if there is none.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesRunsByRunIdConfig"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel a waiting or running run
         * @description Needs the permission `pipelines:run`.
         */
        post: operations["postPipelinesRunsByRunIdCancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The log of a run
         * @description The whole log, or its last lines that match: the search goes over all of it. To page backwards give the first of the `numbers` as `before`.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesRunsByRunIdLogs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}/logs/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow the log of a run
         * @description Server-sent events: `line` for each line, with its number as id (send it back as Last-Event-ID to resume), `end` with the final status.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesRunsByRunIdLogsStream"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow the runs that you may see
         * @description Server-sent events: `run` with a run as it is now (at first all that have not ended or ended in the last seconds), `deleted` with the id of one that is gone, and `heartbeat` every ten seconds. Steps in quick succession may come as one. A stream ends when the session or key does; after a break list the runs again.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getRunsEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}/output/ticket": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * An address for a browser to download the output from
         * @description It works once, within 60 seconds.
         *
         *     Needs the permission `pipelines:read`.
         */
        post: operations["postPipelinesRunsByRunIdOutputTicket"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}/output": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Download the output of a run
         * @description The file as an attachment; ranges are served. With `?ticket=` no other credentials are needed.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesRunsByRunIdOutput"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}/download": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Download the output of a run
         * @description The file as an attachment; ranges are served. With `?ticket=` no other credentials are needed.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesRunsByRunIdDownload"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}/quarantine": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The records that the destination of a run refused
         * @description One JSON object `{record, reason}` per line (config.sync.on_error: quarantine). Expires like the output. 404 if there is none.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesRunsByRunIdQuarantine"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}/quarantine/resend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send the quarantine of a run again
         * @description Creates a run of the same pipeline that loads these records into its destination, as they are in the quarantine. A replace becomes an append; the state of the pipeline stays as it is. Sending twice loads twice, unless the pipeline upserts. 404 if there is no quarantine.
         *
         *     Needs the permission `pipelines:run`.
         */
        post: operations["postPipelinesRunsByRunIdQuarantineResend"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Load the output of a run again
         * @description A run of `triggered_by` replay: the kept output of this run is loaded into the destination of its pipeline, or into the one given, without asking the source. It is written as the pipeline writes: replace replaces, upsert merges, append adds the records once more. The state of the pipeline stays as it is. To give a destination needs pipelines:write and pipelines:read too. 409 if there is no kept output.
         *
         *     Needs the permission `pipelines:run`.
         */
        post: operations["postPipelinesRunsByRunIdReplay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/timeline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The last and the next 24 hours
         * @description Pipelines with their runs and the times of their schedules: those whose last run failed come first, then those that ran last, then those that run next.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getRunsTimeline"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/days": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Runs and records per day
         * @description The last days, today last. A day that is over may be up to ten minutes old.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getRunsDays"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}/query": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Query the output of a run with SQL
         * @description The statement is executed by DuckDB, and only if it reads nothing but the table `output`. It has 30 seconds; the output may have up to 4 GB, uncompressed, and the answer up to 16 MB. Numbers keep all of their digits, so read those beyond 2^53 with a parser that does too. With `format: csv` the answer is a CSV file, and the header X-Truncated says whether it is all. A statement that is wrong, or needs too much, is 400 with DuckDB's own message.
         *
         *     Needs the permission `pipelines:read`.
         */
        post: operations["postPipelinesRunsByRunIdQuery"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/runs/{run_id}/output/sample": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The first rows of the output of a run
         * @description In the form of a query. Only the beginning of the output is read, so the types are those that its first rows have.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesRunsByRunIdOutputSample"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Members of the organization
         * @description Needs the permission `members:read`.
         */
        get: operations["getUsers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users/{user_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A member
         * @description Needs the permission `members:read`.
         */
        get: operations["getUsersByUserId"];
        put?: never;
        post?: never;
        /**
         * Remove a member from the organization
         * @description Their sessions and API keys in this organization end immediately, and the invitations they sent are cancelled. Nobody removes the owner, and no admin removes another admin (403).
         *
         *     Needs the permission `users:manage_roles`.
         */
        delete: operations["deleteUsersByUserId"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users/{user_id}/role": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Change the role of a member
         * @description Not to owner (400): transfer the ownership instead. Nobody changes the owner, and no admin changes another admin (403). The invitations of somebody who may no longer invite are cancelled.
         *
         *     Needs the permission `users:manage_roles`.
         */
        put: operations["putUsersByUserIdRole"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users/invite": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Invite somebody to the organization
         * @description Send them `invite_url`: its token is shown only in this response. A member, or an address with a pending invitation, cannot be invited again (409).
         *
         *     Needs the permission `users:invite`.
         */
        post: operations["postUsersInvite"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users/invitations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Pending invitations
         * @description Needs the permission `users:invite`.
         */
        get: operations["getUsersInvitations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users/invitations/{invitation_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Cancel a pending invitation
         * @description Needs the permission `users:invite`.
         */
        delete: operations["deleteUsersInvitationsByInvitationId"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users/invitations/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What an invitation is for
         * @description An expired invitation is shown with `is_expired`; one that was used or cancelled is 400.
         */
        get: operations["getUsersInvitationsPreview"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users/invitations/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Join the organization that invited you
         * @description Anybody who has the token may use it, once. The response has tokens for the joined organization. If it was accepted with an API key, these tokens end with the key and may do no more than a key.
         */
        post: operations["postUsersInvitationsAccept"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users/{user_id}/domain-roles": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Domain roles of a member
         * @description Needs the permission `members:read`.
         */
        get: operations["getUsersByUserIdDomainRoles"];
        put?: never;
        /**
         * Give a member a higher role in one domain
         * @description It only adds permissions in this domain, and changes nothing for admins and the owner. Only the owner grants the admin role (403). A member has one role per domain (409).
         *
         *     Needs the permission `users:manage_roles`.
         */
        post: operations["postUsersByUserIdDomainRoles"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users/{user_id}/domain-roles/{domain_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Remove a domain role
         * @description Needs the permission `users:manage_roles`.
         */
        delete: operations["deleteUsersByUserIdDomainRolesByDomainId"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/domains": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Domains of the organization
         * @description Needs the permission `domains:read`.
         */
        get: operations["getDomains"];
        put?: never;
        /**
         * Create a domain
         * @description Needs the permission `domains:write`.
         */
        post: operations["postDomains"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/domains/{domain_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A domain
         * @description Needs the permission `domains:read`.
         */
        get: operations["getDomainsByDomainId"];
        /**
         * Change a domain
         * @description Only the given fields change; null clears the description or the color. The admin role in this domain is enough.
         *
         *     Needs the permission `domains:write`.
         */
        put: operations["putDomainsByDomainId"];
        post?: never;
        /**
         * Delete an empty domain
         * @description A domain that still has pipelines cannot be deleted (403): move or delete them first.
         *
         *     Needs the permission `domains:delete`.
         */
        delete: operations["deleteDomainsByDomainId"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/api-keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * API keys of the organization that were not revoked
         * @description Needs the permission `api_keys:read`.
         */
        get: operations["getApiKeys"];
        put?: never;
        /**
         * Create an API key
         * @description It has the permissions that its creator has in this organization at the moment of each use, limited by `role` and `scopes`. A key that is created with a key has at most the same limits, expires no later and is revoked with it. The whole key is shown only in this response.
         *
         *     Needs the permission `api_keys:write`.
         */
        post: operations["postApiKeys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/api-keys/{key_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Revoke an API key
         * @description It stops working immediately, and so do the keys that were created with it. Members revoke their own keys, admins and the owner any.
         *
         *     Needs the permission `api_keys:write`.
         */
        delete: operations["deleteApiKeysByKeyId"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Who did what, newest first
         * @description For the next page send the `id` of the last line as `before`. With `format=csv` or `Accept: text/csv` the response is a CSV file of all matching lines.
         *
         *     Needs the permission `audit:read`.
         */
        get: operations["getAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/webhooks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Webhooks of the organization
         * @description Needs the permission `webhooks:write`.
         */
        get: operations["getWebhooks"];
        put?: never;
        /**
         * Create a webhook
         * @description Requests are signed with its secret, which this answer alone shows. docs/webhooks.md says how to verify them and what is promised.
         *
         *     Needs the permission `webhooks:write`.
         */
        post: operations["postWebhooks"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/webhooks/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A webhook
         * @description Needs the permission `webhooks:write`.
         */
        get: operations["getWebhooksById"];
        /**
         * Change a webhook
         * @description Only what is given changes; null clears the description. A new secret signs from the next attempt on. What waits while a webhook is disabled is not sent later.
         *
         *     Needs the permission `webhooks:write`.
         */
        put: operations["putWebhooksById"];
        post?: never;
        /**
         * Delete a webhook and its deliveries
         * @description Needs the permission `webhooks:write`.
         */
        delete: operations["deleteWebhooksById"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/webhooks/{id}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What was sent, and what became of it
         * @description Newest first. Finished deliveries are kept for 30 days.
         *
         *     Needs the permission `webhooks:write`.
         */
        get: operations["getWebhooksByIdDeliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/webhooks/{id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a test
         * @description Queues a delivery of the event `test`; the list of deliveries tells whether it arrived.
         *
         *     Needs the permission `webhooks:write`.
         */
        post: operations["postWebhooksByIdTest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/webhooks/{id}/deliveries/{delivery_id}/resend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a delivery again
         * @description Queues a new delivery with the same event and payload, under a new id.
         *
         *     Needs the permission `webhooks:write`.
         */
        post: operations["postWebhooksByIdDeliveriesByDeliveryIdResend"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/alerts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Alerts of the organization
         * @description Needs the permission `webhooks:write`.
         */
        get: operations["getAlerts"];
        put?: never;
        /**
         * Create an alert
         * @description Tells people once when something begins, and once when it is over. docs/alerts.md says what each event means.
         *
         *     Needs the permission `webhooks:write`.
         */
        post: operations["postAlerts"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/alerts/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * An alert
         * @description Needs the permission `webhooks:write`.
         */
        get: operations["getAlertsById"];
        /**
         * Change an alert
         * @description Only what is given changes; null clears. After a change of what it watches, or of `enabled`, it starts anew: what it has told of is over without a message.
         *
         *     Needs the permission `webhooks:write`.
         */
        put: operations["putAlertsById"];
        post?: never;
        /**
         * Delete an alert and its deliveries
         * @description Needs the permission `webhooks:write`.
         */
        delete: operations["deleteAlertsById"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/alerts/{id}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What an alert has sent, and what became of it
         * @description Newest first. Finished deliveries are kept for 30 days.
         *
         *     Needs the permission `webhooks:write`.
         */
        get: operations["getAlertsByIdDeliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/alerts/{id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a test of an alert
         * @description Queues a message, which is sent at once, in quiet hours too; the list of deliveries tells whether it arrived.
         *
         *     Needs the permission `webhooks:write`.
         */
        post: operations["postAlertsByIdTest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/connectors/sources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List sources
         * @description Includes the custom sources of the organization.
         *
         *     Needs the permission `connectors:read`.
         */
        get: operations["getConnectorsSources"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/connectors/destinations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List destinations
         * @description Needs the permission `connectors:read`.
         */
        get: operations["getConnectorsDestinations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/connectors/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Check a source or destination
         * @description With `stream`, also checks that it exists and can be read, or that its table can be written. Ends after 30 seconds.
         *
         *     Needs the permission `connectors:write`.
         */
        post: operations["postConnectorsCheck"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/connectors/streams": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * List the streams of a source
         * @description With `describe`, also their columns, keys and estimated numbers of rows. Ends after 30 seconds.
         *
         *     Needs the permission `connectors:write`.
         */
        post: operations["postConnectorsStreams"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/saved/sources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List saved sources
         * @description Needs the permission `connectors:read`.
         */
        get: operations["getSavedSources"];
        put?: never;
        /**
         * Save a source
         * @description Needs the permission `connectors:write`.
         */
        post: operations["postSavedSources"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/saved/sources/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A saved source with its config
         * @description Needs the permission `connectors:read`.
         */
        get: operations["getSavedSourcesById"];
        /**
         * Change a saved source
         * @description Needs the permission `connectors:write`.
         */
        put: operations["putSavedSourcesById"];
        post?: never;
        /**
         * Delete a saved source
         * @description Pipelines that use it stay; their next run fails and says that it is gone. With `if_unused` it is not deleted then, and the answer says who uses it.
         *
         *     Needs the permission `connectors:write`.
         */
        delete: operations["deleteSavedSourcesById"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/saved/sources/{id}/pipelines": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The pipelines that use a saved source
         * @description Needs the permission `connectors:read`.
         */
        get: operations["getSavedSourcesByIdPipelines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/saved/destinations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List saved destinations
         * @description Needs the permission `connectors:read`.
         */
        get: operations["getSavedDestinations"];
        put?: never;
        /**
         * Save a destination
         * @description Needs the permission `connectors:write`.
         */
        post: operations["postSavedDestinations"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/saved/destinations/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A saved destination with its config
         * @description Needs the permission `connectors:read`.
         */
        get: operations["getSavedDestinationsById"];
        /**
         * Change a saved destination
         * @description Needs the permission `connectors:write`.
         */
        put: operations["putSavedDestinationsById"];
        post?: never;
        /**
         * Delete a saved destination
         * @description Pipelines that use it stay; their next run fails and says that it is gone. With `if_unused` it is not deleted then, and the answer says who uses it.
         *
         *     Needs the permission `connectors:write`.
         */
        delete: operations["deleteSavedDestinationsById"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/saved/destinations/{id}/pipelines": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The pipelines that use a saved destination
         * @description Needs the permission `connectors:read`.
         */
        get: operations["getSavedDestinationsByIdPipelines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/custom-sources/validate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Validate code; nothing is saved
         * @description Needs the permission `custom_sources:write`.
         */
        post: operations["postCustomSourcesValidate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/custom-sources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List custom sources
         * @description Needs the permission `custom_sources:read`.
         */
        get: operations["getCustomSources"];
        put?: never;
        /**
         * Create a custom source
         * @description Needs the permission `custom_sources:write`.
         */
        post: operations["postCustomSources"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/custom-sources/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A custom source with its code
         * @description Needs the permission `custom_sources:read`.
         */
        get: operations["getCustomSourcesById"];
        /**
         * Change a custom source
         * @description New code becomes a new version. Runs in progress keep the code they started with.
         *
         *     Needs the permission `custom_sources:write`.
         */
        put: operations["putCustomSourcesById"];
        post?: never;
        /**
         * Delete a custom source
         * @description Pipelines that use it stay; their next run fails and says that it is gone. With `if_unused` it is not deleted then, and the answer says who uses it.
         *
         *     Needs the permission `custom_sources:write`.
         */
        delete: operations["deleteCustomSourcesById"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/custom-sources/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Read a few records
         * @description Of saved code (source_id), of the code given, or of the code given in place of the saved one.
         *
         *     Needs the permission `custom_sources:write`.
         */
        post: operations["postCustomSourcesPreview"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/custom-sources/{id}/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Test the connection of a custom source
         * @description Of the code given in place of the saved one, if there is any.
         *
         *     Needs the permission `custom_sources:write`.
         */
        post: operations["postCustomSourcesByIdCheck"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/custom-sources/{id}/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The versions of a custom source, newest first
         * @description Needs the permission `custom_sources:read`.
         */
        get: operations["getCustomSourcesByIdVersions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/custom-sources/{id}/versions/{version}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One version with its code
         * @description Needs the permission `custom_sources:read`.
         */
        get: operations["getCustomSourcesByIdVersionsByVersion"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/custom-sources/{id}/pipelines": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The pipelines that use a custom source
         * @description Needs the permission `custom_sources:read`.
         */
        get: operations["getCustomSourcesByIdPipelines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/manifests/validate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Validate a manifest; nothing is saved
         * @description Needs the permission `custom_sources:write`.
         */
        post: operations["postManifestsValidate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/manifests": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List manifests
         * @description Needs the permission `custom_sources:read`.
         */
        get: operations["getManifests"];
        put?: never;
        /**
         * Save a manifest; its source_name is then a source like any other
         * @description Needs the permission `custom_sources:write`.
         */
        post: operations["postManifests"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/manifests/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A manifest with its YAML
         * @description Needs the permission `custom_sources:read`.
         */
        get: operations["getManifestsById"];
        /**
         * Change a manifest
         * @description New YAML becomes a new version. Runs in progress keep the one they started with.
         *
         *     Needs the permission `custom_sources:write`.
         */
        put: operations["putManifestsById"];
        post?: never;
        /**
         * Delete a manifest
         * @description Pipelines that use it stay; their next run fails and says that it is gone. With `if_unused` it is not deleted then, and the answer says who uses it.
         *
         *     Needs the permission `custom_sources:write`.
         */
        delete: operations["deleteManifestsById"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/manifests/{id}/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The versions of a manifest, newest first
         * @description Needs the permission `custom_sources:read`.
         */
        get: operations["getManifestsByIdVersions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/manifests/{id}/versions/{version}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One version with its YAML
         * @description Needs the permission `custom_sources:read`.
         */
        get: operations["getManifestsByIdVersionsByVersion"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/manifests/{id}/pipelines": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The pipelines that use a manifest
         * @description Needs the permission `custom_sources:read`.
         */
        get: operations["getManifestsByIdPipelines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List pipelines
         * @description Newest first unless sorted otherwise, each with its source, stream, destination, domain, last and next run.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getPipelines"];
        put?: never;
        /**
         * Create a pipeline
         * @description The whole config is checked; `detail` begins with the path of what is wrong.
         *
         *     Needs the permission `pipelines:write`.
         */
        post: operations["postPipelines"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/schedule-preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * When a schedule fires next
         * @description Needs the permission `pipelines:read`.
         */
        post: operations["postPipelinesSchedulePreview"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A pipeline with its config
         * @description Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesById"];
        /**
         * Change a pipeline
         * @description What is absent stays; null clears schedule, timezone and domain_id. Moving it to another domain needs the permission on both sides. A notice says when the next run starts from the beginning. With dry_run everything is checked and nothing changes.
         *
         *     Needs the permission `pipelines:write`.
         */
        put: operations["putPipelinesById"];
        post?: never;
        /**
         * Delete a pipeline with all its runs
         * @description A run in progress is cancelled first.
         *
         *     Needs the permission `pipelines:write`.
         */
        delete: operations["deletePipelinesById"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/{id}/copy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Copy a pipeline
         * @description The copy is disabled. Without a name it is called "X (copy)", then "X (copy 2)".
         *
         *     Needs the permission `pipelines:write`.
         */
        post: operations["postPipelinesByIdCopy"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/{id}/duplicate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The same as copy
         * @description The copy is disabled. Without a name it is called "X (copy)", then "X (copy 2)".
         *
         *     Needs the permission `pipelines:write`.
         */
        post: operations["postPipelinesByIdDuplicate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/bulk": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Create a pipeline for each chosen stream of a source
         * @description All of them or none. A missing cursor_field or primary_key of config.sync is taken from the description of each stream.
         *
         *     Needs the permission `pipelines:write`.
         */
        post: operations["postPipelinesBulk"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/{id}/state": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The cursor from which the next incremental run continues
         * @description Null also where the pipeline was changed since it was kept, so that the next run starts from the beginning.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesByIdState"];
        /**
         * Set the cursor
         * @description It belongs to the current config, regardless of what the pipeline read and wrote before.
         *
         *     Needs the permission `pipelines:write`.
         */
        put: operations["putPipelinesByIdState"];
        post?: never;
        /**
         * Forget the cursor
         * @description The next incremental run reads everything.
         *
         *     Needs the permission `pipelines:write`.
         */
        delete: operations["deletePipelinesByIdState"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/{id}/schema": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The columns that the destination has after the last run
         * @description Needs the permission `pipelines:read`.
         */
        get: operations["getPipelinesByIdSchema"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Try a pipeline without loading anything
         * @description Reads the first records of its source, from the beginning, and looks at the destination without changing anything there. It ends after 30 seconds.
         *
         *     Needs the permission `pipelines:write`.
         */
        post: operations["postPipelinesPreview"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/pipelines/actions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run, enable, disable, delete or move many pipelines
         * @description Each pipeline is a request of its own: it needs the permission of the action, and one that is refused does not stop the others. The results are in the order of the ids.
         *
         *     Needs the permission `pipelines:read`.
         */
        post: operations["postPipelinesActions"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Plan changes of the whole organization, or apply them
         * @description With `dry_run` it answers what would be changed, and every problem. Otherwise all of it is applied in one transaction, or nothing. Each change needs the permission that the same change by itself needs. The body may have 16 MB.
         *
         *     Needs the permission `pipelines:read`.
         */
        post: operations["postChanges"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/changes/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The organization as objects for files
         * @description Of one moment, in a fixed order, without ids. Secrets are references such as `${SHOP_PASSWORD}`; a text that has `${` itself has `$${` instead.
         *
         *     Needs the permission `pipelines:read`.
         */
        get: operations["getChangesExport"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        AcceptedInvitation: {
            message: string;
            organization_name: string;
            role: components["schemas"]["Role"];
            access_token: string;
            refresh_token: string;
            user: {
                /** Format: uuid */
                id: string;
                email: string;
                name: string;
                role: components["schemas"]["Role"];
            };
            organization: components["schemas"]["Organization"];
        };
        Alert: {
            /** Format: uuid */
            id: string;
            name: string;
            /** Format: uuid */
            domain_id: string | null;
            /** Format: uuid */
            pipeline_id: string | null;
            on: ("failed" | "recovered" | "late" | "row_count" | "schema_changed")[];
            late_after_minutes: number | null;
            min_records: number | null;
            max_records: number | null;
            /** @description Where it is sent: `{"type": "slack", "url": …}` or `{"type": "email", "to": [ … ]}` */
            channel: {
                /** @enum {string} */
                type: "slack" | "email";
                /** @description With slack: an incoming webhook. Shown with a mask, which may be sent back */
                url?: string;
                /** @description With email: members of the organization */
                to?: string[];
            } | null;
            /** @description Nothing is sent from `from` to `to`, which may be after midnight. What happens then is sent at their end, unless it is over by then */
            quiet_hours: {
                from: string;
                to: string;
                /** @description Such as Europe/Berlin */
                time_zone: string;
                /** @description On which they begin. Absent: every day */
                days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
            } | null;
            enabled: boolean;
            /** @description How many problems of pipelines it has told of that are not over */
            open_incidents: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string | null;
        };
        /** @description Where it is sent: `{"type": "slack", "url": …}` or `{"type": "email", "to": [ … ]}` */
        AlertChannel: {
            /** @enum {string} */
            type: "slack" | "email";
            /** @description With slack: an incoming webhook. Shown with a mask, which may be sent back */
            url?: string;
            /** @description With email: members of the organization */
            to?: string[];
        };
        AlertDelivery: {
            /**
             * Format: uuid
             * @description The same at every attempt; also sent as X-Sluice-Delivery
             */
            id: string;
            /** Format: uuid */
            alert_id: string;
            /** Format: uuid */
            incident_id: string | null;
            /**
             * Format: uuid
             * @description The delivery whose message told this one too, when many came at once; what became of it is shown here
             */
            told_with: string | null;
            /** @enum {string} */
            event: "failed" | "recovered" | "late" | "row_count" | "schema_changed" | "test";
            payload: {
                [key: string]: unknown;
            };
            /** @enum {string} */
            status: "pending" | "delivered" | "failed";
            attempts: number;
            /** Format: date-time */
            next_attempt_at: string | null;
            /** @description Of the last attempt that was answered */
            response_status: number | null;
            /** @description Why it was not sent, or did not arrive */
            error: string | null;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            finished_at: string | null;
        };
        ApiKey: {
            /** Format: uuid */
            id: string;
            name: string;
            /** @description The first 12 characters of the key */
            key_prefix: string;
            /** @description The limits of the key; empty if it may do everything that its creator may do */
            scopes: {
                role?: components["schemas"]["Role"];
                permissions?: ("pipelines:read" | "connectors:read" | "custom_sources:read" | "domains:read" | "api_keys:read" | "members:read" | "pipelines:write" | "pipelines:run" | "connectors:write" | "custom_sources:write" | "api_keys:write" | "domains:write" | "domains:delete" | "users:invite" | "users:manage_roles" | "audit:read" | "organization:write" | "webhooks:write")[];
                /** Format: uuid */
                domain_id?: string;
            };
            /** Format: date-time */
            last_used_at: string | null;
            /**
             * Format: date-time
             * @description Null: never
             */
            expires_at: string | null;
            /** Format: date-time */
            created_at: string;
            /** Format: uuid */
            created_by: string;
            created_by_name: string;
        };
        ApiKeyAuthentication: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "api_key";
            params: {
                /**
                 * Format: password
                 * @description The key.
                 */
                token: string;
                /** @description The name of the header that carries the key. Default: X-API-Key. */
                header?: string;
            };
        };
        AuditLine: {
            id: number;
            /** Format: date-time */
            at: string;
            /** Format: uuid */
            actor_id: string | null;
            actor_email: string | null;
            /** Format: uuid */
            api_key_id: string | null;
            action: string;
            object_type: string;
            object_id: string | null;
            details: {
                [key: string]: unknown;
            };
            request_id: string | null;
            client_address: string | null;
        };
        AuthenticationResult: {
            access_token: string;
            refresh_token: string;
            user: {
                /** Format: uuid */
                id: string;
                email: string;
                name: string;
                role: components["schemas"]["Role"];
            };
            organization: components["schemas"]["Organization"];
        };
        Backfill: {
            /** @description The first value of the cursor that is read, as the source writes it: a time, a date, a number */
            from: string | number;
            /** @description The range ends right before this value */
            to: string | number;
        };
        BasicAuthentication: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "basic";
            params: {
                /** @description The user name. */
                username: string;
                /** Format: password */
                password: string;
            };
        };
        BearerAuthentication: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "bearer";
            params: {
                /**
                 * Format: password
                 * @description The bearer token.
                 */
                token: string;
            };
        };
        BuiltInDestination: components["schemas"]["ClickhouseDestination"] | components["schemas"]["DuckdbDestination"] | components["schemas"]["FileDestination"] | components["schemas"]["LoggerDestination"] | components["schemas"]["MysqlDestination"] | components["schemas"]["PostgresDestination"] | components["schemas"]["S3Destination"] | components["schemas"]["SqliteDestination"] | components["schemas"]["WebhookDestination"];
        BuiltInSource: components["schemas"]["ClickhouseSource"] | components["schemas"]["DuckdbSource"] | components["schemas"]["DummySource"] | components["schemas"]["FileSource"] | components["schemas"]["ManifestSource"] | components["schemas"]["MysqlSource"] | components["schemas"]["PostgresSource"] | components["schemas"]["RestApiSource"] | components["schemas"]["S3Source"] | components["schemas"]["SqliteSource"];
        BulkBuiltInSource: components["schemas"]["BulkClickhouseSource"] | components["schemas"]["BulkDuckdbSource"] | components["schemas"]["BulkDummySource"] | components["schemas"]["BulkFileSource"] | components["schemas"]["BulkManifestSource"] | components["schemas"]["BulkMysqlSource"] | components["schemas"]["BulkPostgresSource"] | components["schemas"]["BulkRestApiSource"] | components["schemas"]["BulkS3Source"] | components["schemas"]["BulkSqliteSource"];
        BulkClickhouseSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "clickhouse";
            authentication?: components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["ClickhouseSourceSettings"];
        };
        BulkCustomSourceReference: {
            /** @description The source_name of a custom source */
            name: string;
            authentication?: components["schemas"]["CustomAuthentication"];
            /** @description Settings of the custom source */
            config?: {
                [key: string]: unknown;
            };
        };
        BulkDuckdbSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "duckdb";
            authentication?: components["schemas"]["ApiKeyAuthentication"] | components["schemas"]["BearerAuthentication"] | components["schemas"]["BasicAuthentication"] | components["schemas"]["Oauth2ClientCredentialsAuthentication"] | components["schemas"]["Oauth2RefreshTokenAuthentication"] | components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["DuckdbSourceSettings"];
        };
        BulkDummySource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "dummy";
            authentication?: components["schemas"]["ApiKeyAuthentication"] | components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["DummySourceSettings"];
        };
        BulkFileSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "file";
            authentication?: components["schemas"]["ApiKeyAuthentication"] | components["schemas"]["BearerAuthentication"] | components["schemas"]["BasicAuthentication"] | components["schemas"]["Oauth2ClientCredentialsAuthentication"] | components["schemas"]["Oauth2RefreshTokenAuthentication"] | components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["FileSourceSettings"];
        };
        BulkManifestSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "manifest";
            authentication?: components["schemas"]["NoAuthentication"];
            config: components["schemas"]["ManifestSourceSettings"];
        };
        BulkMysqlSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "mysql";
            authentication?: components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["MysqlSourceSettings"];
        };
        /** @description As for one pipeline, but its source has no stream */
        BulkPipelineConfig: {
            /**
             * @description A label; the pipeline has its own name.
             * @example Orders
             */
            name?: string;
            source: components["schemas"]["BulkPipelineSource"];
            destination: components["schemas"]["PipelineDestination"];
            sync?: components["schemas"]["PipelineSync"];
            columns?: components["schemas"]["PipelineColumns"];
            run?: components["schemas"]["PipelineRunOptions"];
        };
        BulkPipelineSource: components["schemas"]["BulkBuiltInSource"] | components["schemas"]["BulkSavedSourceReference"] | components["schemas"]["BulkCustomSourceReference"];
        BulkPipelines: {
            config: components["schemas"]["BulkPipelineConfig"];
            /** @description Names, "all", or a pattern in which * stands for any characters and ? for one. Each gets a pipeline */
            streams: string[] | "all" | {
                pattern: string;
            };
            /** @description May contain {source} and {stream} */
            name_pattern?: string;
            /** @description The table of each pipeline, as in 'raw_{stream}'; may contain {stream}, {schema} and {source} */
            table_pattern?: string;
            /** @description Create nothing; answer with what would be created */
            dry_run?: boolean;
            /** @description Cron with five fields: minute, hour, day, month, weekday. Null or empty: manual runs only */
            schedule?: string | null;
            /** @description IANA name such as Europe/Berlin; null is UTC */
            timezone?: string | null;
            enabled?: boolean;
            /** Format: uuid */
            domain_id?: string | null;
        };
        BulkPlan: {
            plan: {
                stream: string;
                name: string;
                /** @description Null if the destination has no tables */
                table: string | null;
                mode: string;
                write: string;
                cursor_field: string | null;
                primary_key: string[];
            }[];
            /** @description Without dry_run, any of these would refuse the request */
            problems: string[];
        };
        BulkPostgresSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "postgres";
            authentication?: components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["PostgresSourceSettings"];
        };
        BulkRestApiSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "rest_api";
            authentication?: components["schemas"]["ApiKeyAuthentication"] | components["schemas"]["BearerAuthentication"] | components["schemas"]["BasicAuthentication"] | components["schemas"]["Oauth2ClientCredentialsAuthentication"] | components["schemas"]["Oauth2RefreshTokenAuthentication"] | components["schemas"]["NoAuthentication"];
            config: components["schemas"]["RestApiSourceSettings"];
        };
        BulkS3Source: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "s3";
            authentication?: components["schemas"]["NoAuthentication"];
            config: components["schemas"]["S3SourceSettings"];
        };
        BulkSavedSourceReference: {
            /** Format: uuid */
            saved_connector_id: string;
            /** @description Settings that the connector lets a pipeline choose */
            config?: {
                [key: string]: unknown;
            };
        };
        BulkSqliteSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "sqlite";
            authentication?: components["schemas"]["ApiKeyAuthentication"] | components["schemas"]["BearerAuthentication"] | components["schemas"]["BasicAuthentication"] | components["schemas"]["Oauth2ClientCredentialsAuthentication"] | components["schemas"]["Oauth2RefreshTokenAuthentication"] | components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["SqliteSourceSettings"];
        };
        CancelledRun: {
            /** @enum {string} */
            status: "cancelled";
        };
        ChangePassword: {
            current_password: string;
            new_password: string;
        };
        ChangedField: {
            /** @description Such as config.sync.cursor_field */
            path: string;
            /** @description Null where there was none, and for secrets */
            before: unknown;
            after: unknown;
            /** @description It is a secret: only that it changes is told */
            secret: boolean;
        };
        ChangedPipeline: {
            /** Format: uuid */
            id: string;
            name: string;
            schedule: string | null;
            timezone: string | null;
            enabled: boolean;
            /** Format: uuid */
            domain_id: string | null;
            /** Format: date-time */
            created_at: string;
            /** @description Further consequences of the change; absent if there are none */
            notice?: string;
        };
        ChangesProblem: {
            /** @description JSON pointer into the request */
            pointer: string;
            message: string;
            /** @description In code, from 1 */
            line: number | null;
            /** @description In code, from 0 */
            column: number | null;
        };
        ChangesRefused: {
            detail: string;
            problems?: components["schemas"]["ChangesProblem"][];
        };
        ChangesRequest: {
            objects: components["schemas"]["DesiredObjects"];
            /**
             * @description Delete what is not described
             * @default false
             */
            prune?: boolean;
            /**
             * @description Only say what would be changed
             * @default false
             */
            dry_run?: boolean;
            /** @description Of the plan: if the organization has changed since, nothing is changed (409) */
            base?: string;
            /** @description Only this domain and its pipelines are concerned, also by prune */
            domain?: string;
            /**
             * @description With dry_run: also ask the sources of pipelines that read something else which columns they have now. Takes up to a minute
             * @default false
             */
            schemas?: boolean;
        };
        ChangesResult: {
            changes: components["schemas"]["PlannedChange"][];
            /** @description What would stop it; empty where it was applied */
            problems: components["schemas"]["ChangesProblem"][];
            /** @description Says which state of the organization was planned with */
            base: string;
            applied: boolean;
        };
        CheckResult: {
            success: boolean;
            message: string;
        };
        CheckSource: {
            /** @description Python; at most 512 KB */
            code?: string | null;
            /** @description `type` and `params`; none where it is absent */
            authentication?: {
                [key: string]: unknown;
            } | null;
            /** @description Settings of the source */
            config?: {
                [key: string]: unknown;
            } | null;
        };
        ClickhouseDestination: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "clickhouse";
            config?: components["schemas"]["ClickhouseDestinationSettings"];
        };
        ClickhouseDestinationSettings: {
            /**
             * Format: password
             * @description https://user:password@host:8443/database, or http:// for a server without TLS. Replaces the separate settings below.
             */
            url?: string;
            /** @description Host name or address of the server. */
            host?: string;
            /** @description Port of the HTTP interface. Default 8443, or 8123 where `secure` is false. */
            port?: number;
            /** @description Name of the database. Default: default. */
            database?: string;
            /** @description Name of the user to log in as. Default: default. */
            user?: string;
            /**
             * Format: password
             * @description Password of the user.
             */
            password?: string;
            /** @description HTTPS, with a certificate that a public authority has signed. False: plain HTTP, password included. Default: true. */
            secure?: boolean;
            /** @description Name of the table. Default: the last part of the stream. */
            table?: string;
            /**
             * @description The server ends a statement that takes longer. 0: no limit of ours.
             * @default 3600
             */
            statement_timeout_seconds?: number;
        };
        ClickhouseSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "clickhouse";
            authentication?: components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["ClickhouseSourceSettings"];
            /** @description The stream to read. */
            stream: string;
        };
        ClickhouseSourceSettings: {
            /**
             * Format: password
             * @description https://user:password@host:8443/database, or http:// for a server without TLS. Replaces the separate settings below.
             */
            url?: string;
            /** @description Host name or address of the server. */
            host?: string;
            /** @description Port of the HTTP interface. Default 8443, or 8123 where `secure` is false. */
            port?: number;
            /** @description Name of the database. Default: default. */
            database?: string;
            /** @description Name of the user to log in as. Default: default. */
            user?: string;
            /**
             * Format: password
             * @description Password of the user.
             */
            password?: string;
            /** @description HTTPS, with a certificate that a public authority has signed. False: plain HTTP, password included. Default: true. */
            secure?: boolean;
            /**
             * @description List only the tables and views of these databases. Empty: all that the user may see.
             * @default []
             */
            databases?: string[];
            /**
             * @description Additional streams: a name and the SELECT that returns its rows.
             * @default {}
             */
            queries?: {
                [key: string]: string;
            };
            /**
             * @description Read tables of engines that merge rows (ReplacingMergeTree and the like) with FINAL, so that rows which were replaced are not returned.
             * @default true
             */
            final?: boolean;
            /**
             * @description Columns of the types String and FixedString that hold bytes instead of text.
             * @default []
             */
            binary_columns?: string[];
            /**
             * @description The server ends a statement that takes longer. 0: no limit of ours.
             * @default 0
             */
            statement_timeout_seconds?: number;
        };
        ColumnDifference: {
            name: string;
            /** @enum {string} */
            change: "added" | "removed" | "type";
            /** @description A column type of the platform */
            before: string | null;
            /** @description A column type of the platform */
            after: string | null;
            /** @description What it means for the target */
            effect: string;
        };
        /** @description Either a source or a destination */
        ConnectorProbe: {
            /** @description Inline (name, config …) or saved (saved_connector_id), as in a pipeline’s config */
            source?: {
                [key: string]: unknown;
            };
            /** @description Inline (name, config …) or saved (saved_connector_id), as in a pipeline’s config */
            destination?: {
                [key: string]: unknown;
            };
            /**
             * Format: uuid
             * @description A pipeline that is being edited: a secret sent as ******** is the one that it has stored
             */
            pipeline_id?: string;
            /** @description Also check this stream: whether it exists and may be read; for a destination whether its table may be written. It may also be given in the source */
            stream?: string;
        };
        /** @description A source */
        ConnectorStreamsProbe: {
            /** @description Inline (name, config …) or saved (saved_connector_id), as in a pipeline’s config */
            source?: {
                [key: string]: unknown;
            };
            /** @description Inline (name, config …) or saved (saved_connector_id), as in a pipeline’s config */
            destination?: {
                [key: string]: unknown;
            };
            /**
             * Format: uuid
             * @description A pipeline that is being edited: a secret sent as ******** is the one that it has stored
             */
            pipeline_id?: string;
            /** @description The stream to describe; by default the first 100 */
            stream?: string;
            /** @description Also describe the streams */
            describe?: boolean;
        };
        /** @description Generated if absent */
        CopyPipeline: {
            name?: string | null;
        };
        CreateAlert: {
            name: string;
            /** Format: uuid */
            domain_id?: string | null;
            /**
             * Format: uuid
             * @description Without this and `domain_id`: every pipeline
             */
            pipeline_id?: string | null;
            on: ("failed" | "recovered" | "late" | "row_count" | "schema_changed")[];
            /** @description With late: the time within which a run must succeed */
            late_after_minutes?: number | null;
            min_records?: number | null;
            max_records?: number | null;
            channel: components["schemas"]["AlertChannel"];
            /** @description Nothing is sent from `from` to `to`, which may be after midnight. What happens then is sent at their end, unless it is over by then */
            quiet_hours?: {
                from: string;
                to: string;
                /** @description Such as Europe/Berlin */
                time_zone: string;
                /** @description On which they begin. Absent: every day */
                days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
            } | null;
            /** @description Absent: true */
            enabled?: boolean;
        };
        CreateApiKey: {
            name: string;
            /** @description Null or absent: never expires */
            expires_in_days?: (30 | 90 | 180 | 365) | null;
            /** @description The key has at most this role. It cannot be higher than your own */
            role?: components["schemas"]["Role"];
            scopes?: {
                /** @description Everything the key may do; you must have each of these permissions yourself */
                permissions: ("pipelines:read" | "connectors:read" | "custom_sources:read" | "domains:read" | "api_keys:read" | "members:read" | "pipelines:write" | "pipelines:run" | "connectors:write" | "custom_sources:write" | "api_keys:write" | "domains:write" | "domains:delete" | "users:invite" | "users:manage_roles" | "audit:read" | "organization:write" | "webhooks:write")[];
                /**
                 * Format: uuid
                 * @description The key reaches only this domain and its pipelines. Allowed with domains:read, pipelines:read, pipelines:write, pipelines:run, domains:write
                 */
                domain_id?: string;
            };
        };
        CreateCustomSource: {
            name: string;
            /** @description Letters, digits, _ . and -; unique in the organization */
            source_name: string;
            /** @description Python; at most 512 KB */
            code: string;
            description?: string | null;
        };
        CreateDomain: {
            name: string;
            description?: string | null;
            /** @description `#RRGGBB` */
            color?: string | null;
        };
        CreateManifest: {
            name: string;
            /** @description Letters, digits, _ . and -; unique in the organization, also among custom sources */
            source_name: string;
            /** @description The YAML of a declarative manifest; at most 2 MB */
            manifest: string;
            description?: string | null;
        };
        CreatePipeline: {
            name: string;
            config: components["schemas"]["PipelineConfig"];
            /** @description Cron with five fields: minute, hour, day, month, weekday. Null or empty: manual runs only */
            schedule?: string | null;
            /** @description IANA name such as Europe/Berlin; null is UTC */
            timezone?: string | null;
            enabled?: boolean;
            /** Format: uuid */
            domain_id?: string | null;
        };
        CreateSavedConnector: {
            name: string;
            connector_name: string;
            /** @description A source: authentication and config. A destination: its settings */
            config: {
                [key: string]: unknown;
            };
            description?: string | null;
        };
        CreateWebhook: {
            /** @description https:// or http://, without a user name */
            url: string;
            /** @description A success after a failure is both `run.succeeded` and `run.recovered` */
            events: ("run.failed" | "run.succeeded" | "run.recovered")[];
            /** @description Signs what is sent; at least 16 characters. Absent: one is made */
            secret?: string;
            description?: string | null;
            /** @description Absent: true */
            enabled?: boolean;
        };
        CreatedApiKey: {
            /** Format: uuid */
            id: string;
            name: string;
            /** @description The whole key, shown only here */
            key: string;
            /** @description The first 12 characters of the key */
            key_prefix: string;
            /**
             * Format: date-time
             * @description Null: never
             */
            expires_at: string | null;
            /** Format: date-time */
            created_at: string;
        };
        CreatedCustomSource: {
            /** Format: uuid */
            id: string;
            name: string;
            source_name: string;
            streams: string[];
            description: string | null;
            /** Format: date-time */
            created_at: string;
            code: string;
        };
        CreatedInvitation: {
            /** Format: uuid */
            id: string;
            email: string;
            role: components["schemas"]["InvitedRole"];
            invited_by_name: string | null;
            /** Format: date-time */
            expires_at: string;
            /** Format: date-time */
            created_at: string;
            /** @description The link to send to them; its token is shown only here */
            invite_url: string;
        };
        CreatedManifest: {
            /** Format: uuid */
            id: string;
            name: string;
            source_name: string;
            streams: string[];
            description: string | null;
            /** Format: date-time */
            created_at: string;
            manifest: string;
            /** @description The JSON Schema of its settings: `spec.connection_specification`; secrets have `airbyte_secret` */
            settings_schema: {
                [key: string]: unknown;
            };
        };
        CreatedWebhook: {
            /** Format: uuid */
            id: string;
            url: string;
            events: string[];
            description: string | null;
            enabled: boolean;
            /** @description Why the service disabled it: nothing arrived for three days. Enabling it clears this */
            disabled_reason: string | null;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string | null;
            /** @description Verifies signatures: shown here and never again */
            secret: string;
        };
        CustomAuthentication: {
            type: string;
            params?: {
                [key: string]: unknown;
            };
        };
        CustomSource: {
            /** Format: uuid */
            id: string;
            name: string;
            source_name: string;
            streams: string[];
            description: string | null;
            /** Format: date-time */
            created_at: string;
            code: string;
            /** Format: date-time */
            updated_at: string | null;
        };
        CustomSourceListItem: {
            /** Format: uuid */
            id: string;
            name: string;
            source_name: string;
            /** @description `dynamic`: they come from the system itself. At most the first 100, and 4 KB, of a custom source; a single read returns all */
            streams: string[];
            description: string | null;
            /** Format: date-time */
            created_at: string;
            /** @description The total number, which may be more than `streams` shows. Null: dynamic */
            stream_count: number | null;
            /** @description The current one */
            version: number;
            /** Format: date-time */
            changed_at: string;
            /** @description How many pipelines name it as their source, counted to 10000 at most; those that use it through a saved source are not counted */
            pipeline_count: number;
        };
        CustomSourceReference: {
            /** @description The source_name of a custom source */
            name: string;
            authentication?: components["schemas"]["CustomAuthentication"];
            /** @description Settings of the custom source */
            config?: {
                [key: string]: unknown;
            };
            /** @description The stream to read. */
            stream: string;
        };
        CustomSourceVersion: {
            version: number;
            streams: string[];
            created_by_name: string | null;
            /** Format: date-time */
            created_at: string;
            code: string;
        };
        CustomSourceVersionListItem: {
            version: number;
            /** @description `dynamic`: they come from the system itself. At most the first 100, and 4 KB, of a custom source; a single read returns all */
            streams: string[];
            created_by_name: string | null;
            /** Format: date-time */
            created_at: string;
            /** @description The total number, which may be more than `streams` shows. Null: dynamic */
            stream_count: number | null;
        };
        /** @description What there should be. The name says which object is meant; a field that is absent has its default */
        DesiredObjects: {
            domains?: {
                [key: string]: unknown;
            }[];
            sources?: {
                [key: string]: unknown;
            }[];
            connections?: {
                [key: string]: unknown;
            }[];
            pipelines?: {
                [key: string]: unknown;
            }[];
        };
        DestinationConnector: {
            name: string;
            display_name: string;
            description: string;
            /** @description A whole source or destination object that works when pasted into a pipeline */
            example_config: {
                [key: string]: unknown;
            };
            /** @description JSON Schema of its settings; `secret` marks secrets, `override` what a pipeline may change. `truncated` is true where a custom source has more settings than are shown */
            config_schema: {
                [key: string]: unknown;
            };
            /** @description What it can do */
            capabilities: {
                [key: string]: unknown;
            };
        };
        Domain: {
            /** Format: uuid */
            id: string;
            name: string;
            description: string | null;
            color: string | null;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string | null;
        };
        DomainListItem: {
            /** Format: uuid */
            id: string;
            name: string;
            description: string | null;
            color: string | null;
            /** Format: date-time */
            created_at: string;
            /** @description Only with `include_counts=true` */
            pipeline_count?: number;
        };
        DomainRole: {
            /** Format: uuid */
            id: string;
            /** Format: uuid */
            user_id: string;
            /** Format: uuid */
            domain_id: string;
            domain_name: string;
            /** @enum {string} */
            role: "admin" | "member";
            /** Format: date-time */
            created_at: string;
        };
        DuckdbDestination: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "duckdb";
            config?: components["schemas"]["DuckdbDestinationSettings"];
        };
        DuckdbDestinationSettings: {
            /** @description The name of the table. Default: the name of the stream. */
            table?: string;
        };
        DuckdbSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "duckdb";
            authentication?: components["schemas"]["ApiKeyAuthentication"] | components["schemas"]["BearerAuthentication"] | components["schemas"]["BasicAuthentication"] | components["schemas"]["Oauth2ClientCredentialsAuthentication"] | components["schemas"]["Oauth2RefreshTokenAuthentication"] | components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["DuckdbSourceSettings"];
            /** @description The stream to read. */
            stream: string;
        };
        DuckdbSourceSettings: {
            /** @description The http or https address of the file. */
            url?: string;
            /** @description The id of a successful run of this organization whose output is the file. */
            run_id?: string;
            /**
             * @description Additional streams: a name and the SELECT that returns its rows.
             * @default {}
             */
            queries?: {
                [key: string]: string;
            };
        };
        DummySource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "dummy";
            authentication?: components["schemas"]["ApiKeyAuthentication"] | components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["DummySourceSettings"];
            /** @enum {string} */
            stream: "creatures" | "plants";
        };
        DummySourceSettings: {
            /**
             * @description How many records the stream has.
             * @default 10
             */
            records?: number;
            /**
             * @description The same seed gives the same records.
             * @default 1
             */
            seed?: number;
            /**
             * @description A pause before each record, in milliseconds.
             * @default 0
             */
            delay_ms?: number;
            /** @description Fails after this many records of the stream. */
            fail_after?: number;
            /** @description Ids start again at 1 after this many records. */
            repeat_ids?: number;
        };
        /** @description What is wrong and what to do */
        Error: {
            detail: string;
        };
        ExportResult: {
            objects: components["schemas"]["ExportedObjects"];
            /** @description Kinds that the caller may not read */
            omitted: ("domains" | "sources" | "connections" | "pipelines")[];
        };
        ExportedObjects: {
            domains?: {
                [key: string]: unknown;
            }[];
            sources?: {
                [key: string]: unknown;
            }[];
            connections?: {
                [key: string]: unknown;
            }[];
            pipelines?: {
                [key: string]: unknown;
            }[];
        };
        FileDestination: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "file";
            config?: components["schemas"]["FileDestinationSettings"];
        };
        FileDestinationSettings: {
            /**
             * @description The format of the file.
             * @default jsonl
             * @enum {string}
             */
            format?: "jsonl" | "csv" | "parquet";
            /**
             * @description gzip compresses jsonl and csv files to .gz; in parquet it replaces snappy.
             * @default none
             * @enum {string}
             */
            compression?: "none" | "gzip";
        };
        FileSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "file";
            authentication?: components["schemas"]["ApiKeyAuthentication"] | components["schemas"]["BearerAuthentication"] | components["schemas"]["BasicAuthentication"] | components["schemas"]["Oauth2ClientCredentialsAuthentication"] | components["schemas"]["Oauth2RefreshTokenAuthentication"] | components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["FileSourceSettings"];
            /** @enum {string} */
            stream: "rows";
        };
        FileSourceSettings: {
            /** @description The http or https address of the file. {a,b} and {01..12} after the host stand for several: they are read one after the other. */
            url?: string;
            /** @description The same for several addresses: their files are read one after the other, in this order. */
            urls?: string[];
            /** @description The id of a successful run of this organization whose output is read. */
            run_id?: string;
            /** @description The same for several runs: their outputs are read one after the other, in this order. */
            run_ids?: string[];
            /**
             * @description jsonl: one object per line. json: one array of objects. Default: detected from the file name, then from the first bytes.
             * @enum {string}
             */
            format?: "jsonl" | "json" | "csv" | "parquet";
            /** @description The delimiter of a CSV. Default: detected. */
            delimiter?: string;
            /**
             * @description Whether the first line of a CSV names its columns. If not, they are column0, column1 and so on.
             * @default true
             */
            header?: boolean;
        };
        Finding: {
            /** @description From 1 */
            line: number;
            /** @description From 0 */
            column: number;
            message: string;
            /** @enum {string} */
            severity: "error" | "warning";
        };
        GrantDomainRole: {
            /** Format: uuid */
            domain_id: string;
            /** @enum {string} */
            role: "admin" | "member";
        };
        InUse: {
            detail: string;
            used_by: {
                /** @description The newest 20 of those that the caller may see */
                pipelines: {
                    /** Format: uuid */
                    id: string;
                    name: string;
                }[];
                /** @description The total number, counted to 10000 at most */
                pipeline_count: number;
                /** @description For a custom source: the newest 20 saved sources that use it */
                saved_sources: {
                    /** Format: uuid */
                    id: string;
                    name: string;
                }[];
                saved_source_count: number;
            };
        };
        Invitation: {
            /** Format: uuid */
            id: string;
            email: string;
            role: components["schemas"]["InvitedRole"];
            invited_by_name: string | null;
            /** Format: date-time */
            expires_at: string;
            /** Format: date-time */
            created_at: string;
        };
        InvitationPreview: {
            email: string;
            role: components["schemas"]["InvitedRole"];
            organization_name: string;
            invited_by_name: string | null;
            /** Format: date-time */
            expires_at: string;
            is_expired: boolean;
        };
        InvitationToken: {
            token: string;
        };
        Invite: {
            email: string;
            role: components["schemas"]["InvitedRole"];
        };
        /** @enum {string} */
        InvitedRole: "admin" | "member" | "viewer";
        LoggerDestination: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "logger";
            config?: components["schemas"]["LoggerDestinationSettings"];
        };
        LoggerDestinationSettings: {
            /**
             * @description How many records the log shows, from the first on.
             * @default 5
             */
            samples?: number;
        };
        Login: {
            email: string;
            password: string;
        };
        Manifest: {
            /** Format: uuid */
            id: string;
            name: string;
            source_name: string;
            streams: string[];
            description: string | null;
            /** Format: date-time */
            created_at: string;
            manifest: string;
            /** @description The JSON Schema of its settings: `spec.connection_specification`; secrets have `airbyte_secret` */
            settings_schema: {
                [key: string]: unknown;
            };
            /** Format: date-time */
            updated_at: string | null;
        };
        ManifestListItem: {
            /** Format: uuid */
            id: string;
            name: string;
            source_name: string;
            /** @description `dynamic`: they come from the system itself. At most the first 100, and 4 KB, of a custom source; a single read returns all */
            streams: string[];
            description: string | null;
            /** Format: date-time */
            created_at: string;
            /** @description The total number, which may be more than `streams` shows. Null: dynamic */
            stream_count: number | null;
            /** @description The current one */
            version: number;
            /** Format: date-time */
            changed_at: string;
            /** @description How many pipelines name it as their source, counted to 10000 at most; those that use it through a saved source are not counted */
            pipeline_count: number;
        };
        ManifestSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "manifest";
            authentication?: components["schemas"]["NoAuthentication"];
            config: components["schemas"]["ManifestSourceSettings"];
            /** @description The stream to read. */
            stream: string;
        };
        ManifestSourceSettings: {
            /** @description The manifest, as YAML */
            manifest: string;
            /** @description What the manifest's `spec.connection_specification` asks for */
            settings?: {
                [key: string]: unknown;
            };
        };
        ManifestValidation: {
            /** @description Whether at least one stream runs */
            valid: boolean;
            /** @enum {string} */
            runs: "whole" | "part" | "no";
            errors: components["schemas"]["Finding"][];
            /** @description The streams that do not run, and why */
            warnings: components["schemas"]["Finding"][];
            extracted_streams: string[] | null;
            /** @description The JSON Schema of its settings: `spec.connection_specification`; secrets have `airbyte_secret` */
            settings_schema: {
                [key: string]: unknown;
            } | null;
        };
        ManifestVersion: {
            version: number;
            streams: string[];
            created_by_name: string | null;
            /** Format: date-time */
            created_at: string;
            manifest: string;
        };
        ManifestVersionListItem: {
            version: number;
            /** @description `dynamic`: they come from the system itself. At most the first 100, and 4 KB, of a custom source; a single read returns all */
            streams: string[];
            created_by_name: string | null;
            /** Format: date-time */
            created_at: string;
            /** @description The total number, which may be more than `streams` shows. Null: dynamic */
            stream_count: number | null;
        };
        Me: {
            /** Format: uuid */
            id: string;
            email: string;
            name: string;
            avatar_url: string | null;
            role: components["schemas"]["Role"];
            organization: components["schemas"]["Organization"];
            permissions: string[];
            has_password: boolean;
            idp_linked: boolean;
            domain_roles: components["schemas"]["DomainRole"][];
            /** Format: date-time */
            created_at: string;
        };
        Member: {
            /** Format: uuid */
            id: string;
            email: string;
            name: string;
            avatar_url: string | null;
            role: components["schemas"]["Role"];
            /** Format: date-time */
            joined_at: string;
        };
        MemberRole: {
            /** Format: uuid */
            id: string;
            email: string;
            name: string;
            role: components["schemas"]["Role"];
            /** Format: date-time */
            joined_at: string;
        };
        Message: {
            message: string;
        };
        MyOrganization: {
            /** Format: uuid */
            id: string;
            name: string;
            slug: string;
            role: components["schemas"]["Role"];
            /** Format: date-time */
            joined_at: string;
        };
        MysqlDestination: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "mysql";
            config?: components["schemas"]["MysqlDestinationSettings"];
        };
        MysqlDestinationSettings: {
            /**
             * Format: password
             * @description mysql://user:password@host:3306/database?sslmode=require. Replaces the separate settings below.
             */
            url?: string;
            /** @description Host name or address of the server. */
            host?: string;
            /** @description Default 3306. */
            port?: number;
            /** @description Name of the database. A source may leave it out. */
            database?: string;
            /** @description Name of the user to log in as. */
            user?: string;
            /**
             * Format: password
             * @description Password of the user.
             */
            password?: string;
            /** @description TLS. Certificates and keys are PEM text, never the name of a file. */
            tls?: {
                /**
                 * @description disable, prefer (TLS where the server offers it), require (TLS, and a chain to `ca` where it is given), verify-ca (TLS and a chain to `ca`, or to the public authorities), verify-full (chain and host name). Default prefer.
                 * @enum {string}
                 */
                mode?: "disable" | "prefer" | "require" | "verify-ca" | "verify-full";
                /** @description PEM text of the authorities to trust instead of the public ones. At most 256 KB. */
                ca?: string;
                /** @description PEM text of the client certificate. */
                cert?: string;
                /**
                 * Format: password
                 * @description PEM text of the client key.
                 */
                key?: string;
            };
            /** @description PEM text of the RSA key of a MySQL server without TLS, to encrypt the password with (caching_sha2_password). It is never asked of the server. */
            server_public_key?: string;
            /** @description Name of the table. Default: the last part of the stream. */
            table?: string;
            /**
             * @description MariaDB ends a statement, and with it the load of a checkpoint, that takes longer. 0: never.
             * @default 3600
             */
            statement_timeout_seconds?: number;
        };
        MysqlSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "mysql";
            authentication?: components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["MysqlSourceSettings"];
            /** @description The stream to read. */
            stream: string;
        };
        MysqlSourceSettings: {
            /**
             * Format: password
             * @description mysql://user:password@host:3306/database?sslmode=require. Replaces the separate settings below.
             */
            url?: string;
            /** @description Host name or address of the server. */
            host?: string;
            /** @description Default 3306. */
            port?: number;
            /** @description Name of the database. A source may leave it out. */
            database?: string;
            /** @description Name of the user to log in as. */
            user?: string;
            /**
             * Format: password
             * @description Password of the user.
             */
            password?: string;
            /** @description TLS. Certificates and keys are PEM text, never the name of a file. */
            tls?: {
                /**
                 * @description disable, prefer (TLS where the server offers it), require (TLS, and a chain to `ca` where it is given), verify-ca (TLS and a chain to `ca`, or to the public authorities), verify-full (chain and host name). Default prefer.
                 * @enum {string}
                 */
                mode?: "disable" | "prefer" | "require" | "verify-ca" | "verify-full";
                /** @description PEM text of the authorities to trust instead of the public ones. At most 256 KB. */
                ca?: string;
                /** @description PEM text of the client certificate. */
                cert?: string;
                /**
                 * Format: password
                 * @description PEM text of the client key.
                 */
                key?: string;
            };
            /** @description PEM text of the RSA key of a MySQL server without TLS, to encrypt the password with (caching_sha2_password). It is never asked of the server. */
            server_public_key?: string;
            /**
             * @description List only the tables and views of these databases. Empty: all that the user may see.
             * @default []
             */
            databases?: string[];
            /**
             * @description Additional streams: a name and the SELECT that returns its rows.
             * @default {}
             */
            queries?: {
                [key: string]: string;
            };
            /**
             * @description Dates that do not exist (0000-00-00, 2024-02-00): null (counted in a warning), text (columns with dates and times are read as text), fail.
             * @default null
             * @enum {string}
             */
            zero_dates?: "null" | "text" | "fail";
            /**
             * @description Read TINYINT(1), which is what BOOLEAN means in MySQL, as boolean: 0 is false, all else true.
             * @default false
             */
            tinyint1_as_boolean?: boolean;
            /**
             * @description The server ends a statement that takes longer. 0: never.
             * @default 0
             */
            statement_timeout_seconds?: number;
        };
        NoAuthentication: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "none";
            params?: Record<string, never>;
        };
        Oauth2ClientCredentialsAuthentication: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "oauth2_client_credentials";
            params: {
                /** @description The http or https address of the token endpoint. */
                token_url: string;
                /** @description The client. */
                client_id: string;
                /**
                 * Format: password
                 * @description Its secret.
                 */
                client_secret: string;
                /** @description Scopes, separated by spaces. */
                scope?: string;
            };
        };
        Oauth2RefreshTokenAuthentication: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "oauth2_refresh_token";
            params: {
                /** @description The http or https address of the token endpoint. */
                token_url: string;
                /** @description The client. */
                client_id: string;
                /**
                 * Format: password
                 * @description Its secret; a public client has none.
                 */
                client_secret?: string;
                /**
                 * Format: password
                 * @description The refresh token. If the provider rotates it, the new one is stored in its place.
                 */
                refresh_token: string;
                /** @description Scopes, separated by spaces. */
                scope?: string;
            };
        };
        Organization: {
            /** Format: uuid */
            id: string;
            name: string;
            slug: string;
        };
        OrganizationRun: {
            /** Format: uuid */
            id: string;
            /** Format: uuid */
            pipeline_id: string;
            status: components["schemas"]["RunStatus"];
            triggered_by: string;
            /** Format: date-time */
            started_at: string | null;
            /** Format: date-time */
            finished_at: string | null;
            error: string | null;
            /** Format: date-time */
            created_at: string;
            /** @description Records passed to the destination that it did not refuse; 0 once the run has failed and left nothing there */
            records_written: number;
            pipeline_name: string;
            /** Format: uuid */
            domain_id: string | null;
        };
        OutputTicket: {
            ticket: string;
            /** @description Address of the file, relative to the service; works once */
            url: string;
            /** Format: date-time */
            expires_at: string;
        };
        Pipeline: {
            /** Format: uuid */
            id: string;
            name: string;
            schedule: string | null;
            timezone: string | null;
            enabled: boolean;
            /** Format: uuid */
            domain_id: string | null;
            /** Format: date-time */
            created_at: string;
            config: components["schemas"]["PipelineConfig"];
            /** Format: date-time */
            updated_at: string | null;
        };
        PipelineActionResult: {
            /** Format: uuid */
            id: string;
            ok: boolean;
            /** @description What was done, or why not */
            detail: string;
        };
        PipelineActions: {
            /** @enum {string} */
            action: "run" | "enable" | "disable" | "delete" | "move";
            ids: string[];
            /**
             * Format: uuid
             * @description With `move`: the domain, or null for none
             */
            domain_id?: string | null;
        };
        PipelineActivity: {
            /** Format: uuid */
            pipeline_id: string;
            /** Format: date-time */
            next_run_at: string | null;
            /** Format: date-time */
            last_success_at: string | null;
            /** @description Newest first */
            runs: {
                /** Format: uuid */
                id: string;
                status: components["schemas"]["RunStatus"];
                /** Format: date-time */
                created_at: string;
                /** Format: date-time */
                started_at: string | null;
                /** Format: date-time */
                finished_at: string | null;
                records_written: number;
            }[];
        };
        PipelineColumns: {
            /**
             * @description Only these columns.
             * @example [
             *       "id",
             *       "email"
             *     ]
             */
            include?: string[];
            /**
             * @description Columns to leave out.
             * @example [
             *       "notes"
             *     ]
             */
            exclude?: string[];
            /**
             * @description New names of columns.
             * @example {
             *       "mail": "email"
             *     }
             */
            rename?: {
                [key: string]: string;
            };
            /**
             * @description Columns whose values are replaced by their SHA-256.
             * @example [
             *       "email"
             *     ]
             */
            hash?: string[];
        };
        PipelineConfig: {
            /**
             * @description A label; the pipeline has its own name.
             * @example Orders
             */
            name?: string;
            source: components["schemas"]["PipelineSource"];
            destination: components["schemas"]["PipelineDestination"];
            sync?: components["schemas"]["PipelineSync"];
            columns?: components["schemas"]["PipelineColumns"];
            run?: components["schemas"]["PipelineRunOptions"];
        };
        PipelineDestination: components["schemas"]["BuiltInDestination"] | components["schemas"]["SavedDestinationReference"];
        PipelineListItem: {
            /** Format: uuid */
            id: string;
            name: string;
            schedule: string | null;
            enabled: boolean;
            /** Format: uuid */
            domain_id: string | null;
            domain_name: string | null;
            /** @description The source connector */
            source_name: string | null;
            /** Format: uuid */
            saved_source_id: string | null;
            stream: string;
            /** @description The destination connector */
            destination_name: string | null;
            /** Format: uuid */
            saved_destination_id: string | null;
            /** Format: date-time */
            next_run_at: string | null;
            last_run_status: components["schemas"]["RunStatus"] | null;
            /** Format: date-time */
            last_run_at: string | null;
            /** Format: date-time */
            created_at: string;
        };
        PipelinePreview: {
            /** @description False where the source could not be read; `error` says why */
            success: boolean;
            /** @description The first records after the choice of columns */
            records: {
                [key: string]: unknown;
            }[];
            /** @description The columns that the records are written to */
            columns: {
                /** @description In the destination */
                name: string;
                /** @description A column type of the platform */
                type: string;
                /** @description The type in the destination, if it has its own */
                native_type: string | null;
            }[];
            /** @description What a run would change there, such as `adds column note text` */
            changes: string[];
            /** @description What would make a run fail, or lose something */
            problems: string[];
            error: string | null;
        };
        PipelineRunOptions: {
            /**
             * @description An attempt that takes longer fails. At most RUN_TIMEOUT_MINUTES, which the operator sets.
             * @example 60
             */
            timeout_minutes?: number;
            /**
             * @description The total number of attempts, if a run fails for a reason that may be temporary.
             * @example 3
             */
            max_attempts?: number;
            /**
             * @description The pause before the second attempt; it doubles with each further one.
             * @example 60
             */
            backoff_seconds?: number;
            /**
             * @description Where the run is executed. shared: by a worker that executes other runs too. pod: by a worker that is started for it and ends with it; refused unless the operator has set POD_CLASSES.
             * @example pod
             * @enum {string}
             */
            isolation?: "shared" | "pod";
            /**
             * @description With isolation pod: the class of machine, which decides on processors and memory. One of those in POD_CLASSES, which the operator sets.
             * @example large
             */
            resources?: string;
            /**
             * @description Whether the records are kept as the output of the run, for RUN_RETENTION_DAYS. They are stored compressed, in a quarter to an eighth of their size as a rule, and what they take counts towards ORG_STORAGE_GB; the log of the run says how much that is. false: nothing of the data stays with the service after the run but what is quarantined, and output_file is null.
             * @example false
             */
            keep_output?: boolean;
        };
        PipelineSchema: {
            columns: {
                name: string;
                /** @description A neutral type: int64, decimal(10,2), timestamptz, text[] … */
                type: string;
                /** @description The destination's own name for it */
                native_type: string | null;
            }[];
            changes: unknown[];
            /** Format: date-time */
            updated_at: string | null;
        };
        PipelineSource: components["schemas"]["BuiltInSource"] | components["schemas"]["SavedSourceReference"] | components["schemas"]["CustomSourceReference"];
        PipelineState: {
            /** @description What it looks like depends on the source; docs/incremental.md has examples */
            cursor: unknown;
            /** Format: date-time */
            updated_at: string | null;
        };
        PipelineStats: {
            days: number;
            runs: number;
            succeeded: number;
            failed: number;
            cancelled: number;
            /** @description Of the runs that succeeded or failed */
            success_rate: number | null;
            duration_seconds: {
                p50: number | null;
                p95: number | null;
                max: number | null;
            };
            records_per_day: {
                day: string;
                runs: number;
                records: number;
            }[];
        };
        PipelineSummary: {
            /** Format: uuid */
            id: string;
            name: string;
            schedule: string | null;
            timezone: string | null;
            enabled: boolean;
            /** Format: uuid */
            domain_id: string | null;
            /** Format: date-time */
            created_at: string;
        };
        PipelineSync: {
            /**
             * @description full_refresh reads everything, incremental what is new since the last run.
             * @example incremental
             * @enum {string}
             */
            mode?: "full_refresh" | "incremental";
            /**
             * @description The field that grows with every change: the next run reads records with higher values. Required by incremental, unless the source keeps track of its position itself.
             * @example updated_at
             */
            cursor_field?: string | null;
            /**
             * @description What happens to existing rows: append adds to them, replace swaps them for the new ones at the end of the run, upsert overwrites those with the same primary_key.
             * @example upsert
             * @enum {string}
             */
            write?: "append" | "replace" | "upsert";
            /**
             * @description The columns that identify a record. Required by upsert.
             * @example [
             *       "id"
             *     ]
             */
            primary_key?: string[];
            /**
             * @description When the source has new columns or wider types: evolve changes the table, discard leaves out what does not fit, fail fails the run before anything changes.
             * @example fail
             * @enum {string}
             */
            schema_change?: "evolve" | "discard" | "fail";
            /**
             * @description An incremental run reads this much again, for records that arrived late. Needs upsert.
             * @example 3600
             */
            lookback_seconds?: number;
            /**
             * @description Whether a replace may empty the table. Otherwise a read without records leaves it as it is, and the run succeeds with a warning.
             * @example true
             */
            allow_empty?: boolean;
            /**
             * @description When the destination refuses a record: fail fails the run, quarantine puts the record into the quarantine of the run, with the reason, and loads the rest. Not every destination can do that.
             * @example quarantine
             * @enum {string}
             */
            on_error?: "fail" | "quarantine";
            /**
             * @description With quarantine: the run fails if a larger share of the records it read was refused. Checked with every refused record, then of at least 10,000 records, and exactly before the run is published.
             * @example 0.05
             */
            max_error_share?: number;
        };
        PlannedChange: {
            /** @enum {string} */
            kind: "domain" | "source" | "connection" | "pipeline";
            name: string;
            /** @enum {string} */
            action: "create" | "change" | "replace" | "delete";
            fields: components["schemas"]["ChangedField"][];
            /** @description What it means for runs, state and tables */
            effects: string[];
            /** @description With schemas: of the pipelines that read something else */
            schemas?: components["schemas"]["SchemaOutlook"][];
        };
        PostgresDestination: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "postgres";
            config?: components["schemas"]["PostgresDestinationSettings"];
        };
        PostgresDestinationSettings: {
            /**
             * Format: password
             * @description postgres://user:password@host:5432/database?sslmode=require. Replaces the separate settings below.
             */
            url?: string;
            /** @description Host name or address of the server. */
            host?: string;
            /** @description Default 5432. */
            port?: number;
            /** @description Name of the database. Default: the user name. */
            database?: string;
            /** @description Name of the role to log in as. */
            user?: string;
            /**
             * Format: password
             * @description Password of the role.
             */
            password?: string;
            /** @description TLS. Certificates and keys are PEM text, never the name of a file. */
            tls?: {
                /**
                 * @description disable, prefer (TLS where the server offers it), require (TLS, and a chain to `ca` where it is given), verify-ca (TLS and a chain to `ca`, or to the public authorities), verify-full (chain and host name). Default prefer.
                 * @enum {string}
                 */
                mode?: "disable" | "prefer" | "require" | "verify-ca" | "verify-full";
                /** @description PEM text of the authorities to trust instead of the public ones. At most 256 KB. */
                ca?: string;
                /** @description PEM text of the client certificate. */
                cert?: string;
                /**
                 * Format: password
                 * @description PEM text of the client key.
                 */
                key?: string;
            };
            /**
             * @description Schema of the table; created if it is missing.
             * @default public
             */
            schema?: string;
            /** @description Name of the table. Default: the last part of the stream. */
            table?: string;
            /**
             * @description The server cancels a statement, and with it the load of a checkpoint, that takes longer. 0: never.
             * @default 3600
             */
            statement_timeout_seconds?: number;
        };
        PostgresSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "postgres";
            authentication?: components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["PostgresSourceSettings"];
            /** @description The stream to read. */
            stream: string;
        };
        PostgresSourceSettings: {
            /**
             * Format: password
             * @description postgres://user:password@host:5432/database?sslmode=require. Replaces the separate settings below.
             */
            url?: string;
            /** @description Host name or address of the server. */
            host?: string;
            /** @description Default 5432. */
            port?: number;
            /** @description Name of the database. Default: the user name. */
            database?: string;
            /** @description Name of the role to log in as. */
            user?: string;
            /**
             * Format: password
             * @description Password of the role.
             */
            password?: string;
            /** @description TLS. Certificates and keys are PEM text, never the name of a file. */
            tls?: {
                /**
                 * @description disable, prefer (TLS where the server offers it), require (TLS, and a chain to `ca` where it is given), verify-ca (TLS and a chain to `ca`, or to the public authorities), verify-full (chain and host name). Default prefer.
                 * @enum {string}
                 */
                mode?: "disable" | "prefer" | "require" | "verify-ca" | "verify-full";
                /** @description PEM text of the authorities to trust instead of the public ones. At most 256 KB. */
                ca?: string;
                /** @description PEM text of the client certificate. */
                cert?: string;
                /**
                 * Format: password
                 * @description PEM text of the client key.
                 */
                key?: string;
            };
            /**
             * @description List only the tables and views of these schemas. Empty: all schemas.
             * @default []
             */
            schemas?: string[];
            /**
             * @description Additional streams: a name and the SELECT that returns its rows.
             * @default {}
             */
            queries?: {
                [key: string]: string;
            };
            /**
             * @description The server ends a statement that takes longer. 0: never.
             * @default 0
             */
            statement_timeout_seconds?: number;
            /**
             * @description How many sessions read a large table at once in a full refresh.
             * @default 2
             */
            parallel?: number;
            /**
             * @description How long an incremental read waits for transactions that have written to the stream and not ended, so that rows which they commit late are not lost. 0: not at all.
             * @default 60
             */
            wait_for_writers_seconds?: number;
        };
        PreviewPipeline: {
            config: components["schemas"]["PipelineConfig"];
            /** @description 10 unless given */
            max_records?: number;
            /**
             * Format: uuid
             * @description A pipeline that is being edited: a secret sent as ******** is the one that it has stored
             */
            pipeline_id?: string;
        };
        PreviewRecord: {
            id: string;
            /** @description The record */
            data: {
                [key: string]: unknown;
            };
        };
        PreviewResult: {
            success: boolean;
            /** @description Empty where the preview failed */
            records: components["schemas"]["PreviewRecord"][];
            /** @description What a preview that failed had yielded until then, at most max_records; empty where it succeeded */
            partial_records: components["schemas"]["PreviewRecord"][];
            total_count: number;
            execution_time_ms: number;
            error: string | null;
            logs: string[];
        };
        PreviewSchedule: {
            schedule: string;
            /** @description IANA name such as Europe/Berlin; null is UTC */
            timezone?: string | null;
        };
        PreviewSource: {
            /** Format: uuid */
            source_id?: string | null;
            /** @description Python; at most 512 KB */
            code?: string | null;
            stream: string;
            /** @description `type` and `params`; none where it is absent */
            authentication?: {
                [key: string]: unknown;
            } | null;
            /** @description Settings of the source */
            config?: {
                [key: string]: unknown;
            } | null;
            /** @default 10 */
            max_records?: number;
        };
        QueryOutput: {
            /** @description One statement that reads: SELECT, WITH, DESCRIBE, SUMMARIZE, EXPLAIN. The output is the table `output` */
            sql: string;
            /**
             * @description `json` unless given
             * @enum {string}
             */
            format?: "json" | "csv";
            /** @description The most rows to return; 1000 unless given */
            limit?: number;
        };
        QueryResult: {
            columns: {
                name: string;
                /** @description A column type of the platform: int64, decimal(18,2), text, timestamptz, json, … */
                type: string;
            }[];
            /** @description One array per row, in the order of the columns. Numbers have all of their digits */
            rows: unknown[][];
            /** @description There are more rows than were returned */
            truncated: boolean;
            execution_time_ms: number;
        };
        RedirectUrl: {
            /**
             * Format: uri
             * @description Send the browser here, within ten minutes
             */
            redirect_url: string;
        };
        Refresh: {
            refresh_token: string;
        };
        Register: {
            email: string;
            password: string;
            name: string;
            /** @description Required without `invitation_token`, ignored with it */
            organization_name?: string;
            /** @description Joins the organization that sent the invitation, with the invited role */
            invitation_token?: string;
        };
        Replay: {
            /** @description Load into this destination instead: `name` and `config`, or `saved_connector_id` */
            destination?: {
                [key: string]: unknown;
            };
        };
        RestApiSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "rest_api";
            authentication?: components["schemas"]["ApiKeyAuthentication"] | components["schemas"]["BearerAuthentication"] | components["schemas"]["BasicAuthentication"] | components["schemas"]["Oauth2ClientCredentialsAuthentication"] | components["schemas"]["Oauth2RefreshTokenAuthentication"] | components["schemas"]["NoAuthentication"];
            config: components["schemas"]["RestApiSourceSettings"];
            /** @description The stream to read. */
            stream: string;
        };
        RestApiSourceSettings: {
            client: {
                /** @description The http or https address that paths are appended to. */
                base_url: string;
                /** @description Headers of every request. */
                headers?: {
                    [key: string]: string | number | boolean;
                };
                auth?: {
                    /** @description bearer (the default), api_key, http_basic or oauth2_client_credentials. */
                    type?: string;
                    /**
                     * Format: password
                     * @description bearer: the token.
                     */
                    token?: string;
                    /**
                     * Format: password
                     * @description api_key: the key.
                     */
                    api_key?: string;
                    /** @description api_key: the name of the header or parameter. Default: Authorization. */
                    name?: string;
                    /** @description api_key: header (the default), query, param or cookie. */
                    location?: string;
                    /** @description http_basic: the user. */
                    username?: string;
                    /**
                     * Format: password
                     * @description http_basic: the password.
                     */
                    password?: string;
                    /** @description oauth2_client_credentials: the address that issues tokens. */
                    access_token_url?: string;
                    /** @description oauth2_client_credentials: the client. */
                    client_id?: string;
                    /**
                     * Format: password
                     * @description oauth2_client_credentials: its secret.
                     */
                    client_secret?: string;
                    /** @description oauth2_client_credentials: more fields of the token request, such as scope. */
                    access_token_request_data?: {
                        [key: string]: string | number | boolean | null;
                    };
                    /** @description oauth2_client_credentials: seconds, where the answer does not say. Default: 3600. */
                    default_token_expiration?: number;
                };
                paginator?: string | {
                    /** @description json_link, header_link, header_cursor, cursor, offset, page_number, single_page or auto. */
                    type: string;
                    next_url_path?: string | null;
                    /** @description header_link: the relation in the Link header. Default: next. */
                    links_next_key?: string;
                    /** @description header_cursor: the header that holds the cursor. Default: next. */
                    cursor_key?: string;
                    cursor_path?: string | null;
                    /** @description cursor, header_cursor: the parameter that carries the cursor. Default: cursor. */
                    cursor_param?: string;
                    /** @description cursor: the path in the JSON body of the request that carries the cursor. */
                    cursor_body_path?: string;
                    /** @description offset: the number of records in a page. */
                    limit?: number;
                    offset?: number | null;
                    /** @description offset: the parameter for the offset. Default: offset. */
                    offset_param?: string;
                    /** @description offset: the path in the JSON body of the request for the offset. */
                    offset_body_path?: string;
                    /** @description offset: the parameter for the limit. Default: limit. */
                    limit_param?: string;
                    /** @description offset: the path in the JSON body of the request for the limit. */
                    limit_body_path?: string;
                    maximum_offset?: number | null;
                    base_page?: number | null;
                    page?: number | null;
                    /** @description page_number: the parameter for the number. Default: page. */
                    page_param?: string;
                    /** @description page_number: the path in the JSON body of the request for the number. */
                    page_body_path?: string;
                    maximum_page?: number | null;
                    total_path?: string | null;
                    has_more_path?: string | null;
                    stop_after_empty_page?: boolean | null;
                } | null;
            };
            resource_defaults?: {
                endpoint?: string | {
                    /** @description The path below base_url, or a whole address. May hold placeholders: {resources.parent.field}. */
                    path?: string;
                    /** @description GET (the default), POST, PUT, PATCH or DELETE. */
                    method?: string;
                    /** @description Parameters of the address. */
                    params?: {
                        [key: string]: unknown;
                    };
                    headers?: {
                        [key: string]: string | number | boolean | null;
                    };
                    /** @description The JSON body of the request. */
                    json?: unknown;
                    /** @description Another body: a text, or an object that is sent as a form. */
                    data?: unknown;
                    paginator?: string | {
                        /** @description json_link, header_link, header_cursor, cursor, offset, page_number, single_page or auto. */
                        type: string;
                        next_url_path?: string | null;
                        /** @description header_link: the relation in the Link header. Default: next. */
                        links_next_key?: string;
                        /** @description header_cursor: the header that holds the cursor. Default: next. */
                        cursor_key?: string;
                        cursor_path?: string | null;
                        /** @description cursor, header_cursor: the parameter that carries the cursor. Default: cursor. */
                        cursor_param?: string;
                        /** @description cursor: the path in the JSON body of the request that carries the cursor. */
                        cursor_body_path?: string;
                        /** @description offset: the number of records in a page. */
                        limit?: number;
                        offset?: number | null;
                        /** @description offset: the parameter for the offset. Default: offset. */
                        offset_param?: string;
                        /** @description offset: the path in the JSON body of the request for the offset. */
                        offset_body_path?: string;
                        /** @description offset: the parameter for the limit. Default: limit. */
                        limit_param?: string;
                        /** @description offset: the path in the JSON body of the request for the limit. */
                        limit_body_path?: string;
                        maximum_offset?: number | null;
                        base_page?: number | null;
                        page?: number | null;
                        /** @description page_number: the parameter for the number. Default: page. */
                        page_param?: string;
                        /** @description page_number: the path in the JSON body of the request for the number. */
                        page_body_path?: string;
                        maximum_page?: number | null;
                        total_path?: string | null;
                        has_more_path?: string | null;
                        stop_after_empty_page?: boolean | null;
                    } | null;
                    data_selector?: string | null;
                    incremental?: {
                        /** @description The path of the cursor in a record. */
                        cursor_path: string;
                        initial_value?: string | number | boolean | null;
                        /** @description How the value is sent: epoch_seconds, epoch_milliseconds, iso, date, integer or string. */
                        convert?: string;
                        /** @description How much of the past is read again: seconds of a time, days of a date, units of a number. */
                        lag?: number;
                        /**
                         * @description desc: pages are read until a record is older than the last run.
                         * @enum {string}
                         */
                        row_order?: "asc" | "desc";
                        /**
                         * @description A record without the cursor: an error (the default), kept or left out.
                         * @enum {string}
                         */
                        on_cursor_value_missing?: "raise" | "include" | "exclude";
                        /** @enum {string} */
                        range_start?: "closed" | "open";
                        /** @enum {string} */
                        range_end?: "open" | "closed";
                        end_value?: string | number | boolean | null;
                        /** @description The parameter that carries the start. */
                        start_param?: string;
                        /** @description The parameter that carries the end. */
                        end_param?: string;
                    };
                    response_actions?: {
                        status_code?: number | string;
                        /** @description A text that the body contains. */
                        content?: string;
                        /**
                         * @description ignore: the page is empty and the last; retry: send it again; fail: end with an error.
                         * @enum {string}
                         */
                        action: "ignore" | "retry" | "fail";
                    }[];
                };
                primary_key?: string | string[];
                /**
                 * @description Only a hint: config.sync of the pipeline decides.
                 * @enum {string}
                 */
                write_disposition?: "append" | "replace" | "merge" | "skip";
                include_from_parent?: string[];
                processing_steps?: {
                    filter?: {
                        /** @description The path of the field. */
                        field: string;
                        equals?: string | number | boolean | null;
                        not_equals?: string | number | boolean | null;
                        in?: (string | number | boolean | null)[];
                        not_in?: (string | number | boolean | null)[];
                        greater_than?: string | number;
                        less_than?: string | number;
                        exists?: boolean;
                    };
                    map?: {
                        rename?: {
                            [key: string]: string;
                        };
                        remove?: string[];
                        select?: string[];
                        set?: {
                            [key: string]: string | number | boolean | null;
                        };
                    };
                    yield_map?: {
                        /** @description The path of a list: each of its objects becomes a record. */
                        explode: string;
                        keep?: string[];
                    };
                }[];
                /** @description Accepted and without effect: requests are sent ahead by themselves. */
                parallelized?: boolean;
            };
            /** @description One stream each: a name that is also the path, or an object. */
            resources: (string | {
                /** @description The name of the stream. */
                name: string;
                endpoint?: string | {
                    /** @description The path below base_url, or a whole address. May hold placeholders: {resources.parent.field}. */
                    path?: string;
                    /** @description GET (the default), POST, PUT, PATCH or DELETE. */
                    method?: string;
                    /** @description Parameters of the address. */
                    params?: {
                        [key: string]: unknown;
                    };
                    headers?: {
                        [key: string]: string | number | boolean | null;
                    };
                    /** @description The JSON body of the request. */
                    json?: unknown;
                    /** @description Another body: a text, or an object that is sent as a form. */
                    data?: unknown;
                    paginator?: string | {
                        /** @description json_link, header_link, header_cursor, cursor, offset, page_number, single_page or auto. */
                        type: string;
                        next_url_path?: string | null;
                        /** @description header_link: the relation in the Link header. Default: next. */
                        links_next_key?: string;
                        /** @description header_cursor: the header that holds the cursor. Default: next. */
                        cursor_key?: string;
                        cursor_path?: string | null;
                        /** @description cursor, header_cursor: the parameter that carries the cursor. Default: cursor. */
                        cursor_param?: string;
                        /** @description cursor: the path in the JSON body of the request that carries the cursor. */
                        cursor_body_path?: string;
                        /** @description offset: the number of records in a page. */
                        limit?: number;
                        offset?: number | null;
                        /** @description offset: the parameter for the offset. Default: offset. */
                        offset_param?: string;
                        /** @description offset: the path in the JSON body of the request for the offset. */
                        offset_body_path?: string;
                        /** @description offset: the parameter for the limit. Default: limit. */
                        limit_param?: string;
                        /** @description offset: the path in the JSON body of the request for the limit. */
                        limit_body_path?: string;
                        maximum_offset?: number | null;
                        base_page?: number | null;
                        page?: number | null;
                        /** @description page_number: the parameter for the number. Default: page. */
                        page_param?: string;
                        /** @description page_number: the path in the JSON body of the request for the number. */
                        page_body_path?: string;
                        maximum_page?: number | null;
                        total_path?: string | null;
                        has_more_path?: string | null;
                        stop_after_empty_page?: boolean | null;
                    } | null;
                    data_selector?: string | null;
                    incremental?: {
                        /** @description The path of the cursor in a record. */
                        cursor_path: string;
                        initial_value?: string | number | boolean | null;
                        /** @description How the value is sent: epoch_seconds, epoch_milliseconds, iso, date, integer or string. */
                        convert?: string;
                        /** @description How much of the past is read again: seconds of a time, days of a date, units of a number. */
                        lag?: number;
                        /**
                         * @description desc: pages are read until a record is older than the last run.
                         * @enum {string}
                         */
                        row_order?: "asc" | "desc";
                        /**
                         * @description A record without the cursor: an error (the default), kept or left out.
                         * @enum {string}
                         */
                        on_cursor_value_missing?: "raise" | "include" | "exclude";
                        /** @enum {string} */
                        range_start?: "closed" | "open";
                        /** @enum {string} */
                        range_end?: "open" | "closed";
                        end_value?: string | number | boolean | null;
                        /** @description The parameter that carries the start. */
                        start_param?: string;
                        /** @description The parameter that carries the end. */
                        end_param?: string;
                    };
                    response_actions?: {
                        status_code?: number | string;
                        /** @description A text that the body contains. */
                        content?: string;
                        /**
                         * @description ignore: the page is empty and the last; retry: send it again; fail: end with an error.
                         * @enum {string}
                         */
                        action: "ignore" | "retry" | "fail";
                    }[];
                };
                primary_key?: string | string[];
                /**
                 * @description Only a hint: config.sync of the pipeline decides.
                 * @enum {string}
                 */
                write_disposition?: "append" | "replace" | "merge" | "skip";
                include_from_parent?: string[];
                processing_steps?: {
                    filter?: {
                        /** @description The path of the field. */
                        field: string;
                        equals?: string | number | boolean | null;
                        not_equals?: string | number | boolean | null;
                        in?: (string | number | boolean | null)[];
                        not_in?: (string | number | boolean | null)[];
                        greater_than?: string | number;
                        less_than?: string | number;
                        exists?: boolean;
                    };
                    map?: {
                        rename?: {
                            [key: string]: string;
                        };
                        remove?: string[];
                        select?: string[];
                        set?: {
                            [key: string]: string | number | boolean | null;
                        };
                    };
                    yield_map?: {
                        /** @description The path of a list: each of its objects becomes a record. */
                        explode: string;
                        keep?: string[];
                    };
                }[];
                /** @description Accepted and without effect: requests are sent ahead by themselves. */
                parallelized?: boolean;
                /** @description False: not a stream, only a parent of others. */
                selected?: boolean;
            })[];
            /** @description How many requests may be under way. Default: 4. */
            requests_at_once?: number;
        };
        /** @enum {string} */
        Role: "viewer" | "member" | "admin" | "owner";
        Run: {
            /** Format: uuid */
            id: string;
            /** Format: uuid */
            pipeline_id: string;
            status: components["schemas"]["RunStatus"];
            triggered_by: string;
            /** Format: date-time */
            started_at: string | null;
            /** Format: date-time */
            finished_at: string | null;
            error: string | null;
            /** Format: date-time */
            created_at: string;
            /** @description Path of the output in the blob store */
            output_file: string | null;
            output_file_size: number | null;
            attempt: number;
            /** @description Version of the custom source that was used */
            source_version: number | null;
            records_read: number;
            /** @description Records passed to the destination that it did not refuse; 0 once the run has failed and left nothing there */
            records_written: number;
            bytes_written: number;
            /** @description Records that the destination refused (config.sync.on_error) */
            records_quarantined: number;
            /** @description What a pending run waits for, in a sentence */
            waiting: string | null;
        };
        RunConfig: {
            /** @description source, destination, sync, columns and run, with defaults applied to sync. Of a replay also `replays`, the id of the run whose output it loads, and `other_destination` if that is not where the pipeline writes. Null: it could not be resolved */
            config: {
                [key: string]: unknown;
            } | null;
            /** @description Why it could not be resolved */
            problem: string | null;
        };
        RunDay: {
            /** Format: date */
            day: string;
            /** @description Runs that were triggered on this day */
            runs: number;
            succeeded: number;
            failed: number;
            cancelled: number;
            /** @description What they have written */
            records: number;
            bytes: number;
        };
        RunListItem: {
            /** Format: uuid */
            id: string;
            /** Format: uuid */
            pipeline_id: string;
            status: components["schemas"]["RunStatus"];
            triggered_by: string;
            /** Format: date-time */
            started_at: string | null;
            /** Format: date-time */
            finished_at: string | null;
            error: string | null;
            /** Format: date-time */
            created_at: string;
        };
        RunLogs: {
            logs: string;
            /** @description The number of each line, with q, level, before, limit or tail */
            numbers: number[] | null;
            /** @description There are earlier lines: give the first number as `before` */
            more: boolean;
        };
        /** @enum {string} */
        RunStatus: "pending" | "running" | "success" | "failed" | "cancelled";
        RunTimeline: {
            /** Format: date-time */
            from: string;
            /** Format: date-time */
            now: string;
            /** Format: date-time */
            to: string;
            pipelines: components["schemas"]["TimelinePipeline"][];
        };
        S3Destination: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "s3";
            config: components["schemas"]["S3DestinationSettings"];
        };
        S3DestinationSettings: {
            /** @description Name of the bucket. */
            bucket: string;
            /** @description The http or https address of the store, without the bucket. Default: Amazon S3 in the region. */
            endpoint?: string;
            /**
             * @description The region that requests are signed for. R2 uses auto.
             * @default us-east-1
             */
            region?: string;
            /**
             * @description path: endpoint/bucket/key. virtual: bucket.endpoint/key. auto is virtual on Amazon S3 for a bucket without dots, path elsewhere.
             * @default auto
             * @enum {string}
             */
            addressing?: "auto" | "path" | "virtual";
            /** @description Access key id. */
            access_key_id: string;
            /**
             * Format: password
             * @description The secret that belongs to the access key id.
             */
            secret_access_key: string;
            /**
             * Format: password
             * @description Only with temporary credentials. They expire, so they do not suit a schedule.
             */
            session_token?: string;
            /**
             * @description What every key begins with, usually a folder that ends with a slash.
             * @default
             */
            prefix?: string;
            /** @description The folder below the prefix that this pipeline writes to. Default: the name of the stream. */
            folder?: string;
            /**
             * @description The format of the objects.
             * @default jsonl
             * @enum {string}
             */
            format?: "jsonl" | "csv" | "parquet";
            /**
             * @description gzip and zstd compress jsonl and csv objects as a whole; inside parquet they replace snappy.
             * @default none
             * @enum {string}
             */
            compression?: "none" | "gzip" | "zstd";
            /**
             * @description Objects go to folders named by these fields, as in country=DE/created_at_day=2026-11-16/.
             * @default []
             */
            partition_by?: {
                /** @description A top-level field of the records. */
                field: string;
                /**
                 * @description For a date or time in ISO 8601: how much of it. Absent: the value itself.
                 * @enum {string}
                 */
                unit?: "year" | "month" | "day" | "hour";
            }[];
        };
        S3Source: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "s3";
            authentication?: components["schemas"]["NoAuthentication"];
            config: components["schemas"]["S3SourceSettings"];
            /** @description The stream to read. */
            stream: string;
        };
        S3SourceSettings: {
            /** @description Name of the bucket. */
            bucket: string;
            /** @description The http or https address of the store, without the bucket. Default: Amazon S3 in the region. */
            endpoint?: string;
            /**
             * @description The region that requests are signed for. R2 uses auto.
             * @default us-east-1
             */
            region?: string;
            /**
             * @description path: endpoint/bucket/key. virtual: bucket.endpoint/key. auto is virtual on Amazon S3 for a bucket without dots, path elsewhere.
             * @default auto
             * @enum {string}
             */
            addressing?: "auto" | "path" | "virtual";
            /** @description Access key id. */
            access_key_id: string;
            /**
             * Format: password
             * @description The secret that belongs to the access key id.
             */
            secret_access_key: string;
            /**
             * Format: password
             * @description Only with temporary credentials. They expire, so they do not suit a schedule.
             */
            session_token?: string;
            /**
             * @description What every key begins with, usually a folder that ends with a slash.
             * @default
             */
            prefix?: string;
            /**
             * @description Which objects of the stream are read, by their names in its folder: *.csv, 2026-*\/**, **\/*.{csv,csv.gz}. Default: all.
             * @default **
             */
            glob?: string;
            /**
             * @description auto: detected for each object, from its name, then from its first bytes.
             * @default auto
             * @enum {string}
             */
            format?: "auto" | "jsonl" | "json" | "csv" | "parquet";
            /** @description The delimiter of CSVs. Default: detected. */
            delimiter?: string;
            /**
             * @description Whether the first line of a CSV names its columns. If not, they are column0, column1 and so on.
             * @default true
             */
            header?: boolean;
            /**
             * @description Incremental reads: how much older than the newest object one may be when it appears in the listing, and still be read.
             * @default 168
             */
            late_hours?: number;
        };
        SavedConnector: {
            /** Format: uuid */
            id: string;
            name: string;
            /** @enum {string} */
            type: "source" | "destination";
            connector_name: string;
            description: string | null;
            /** Format: date-time */
            created_at: string;
        };
        SavedConnectorWithConfig: {
            /** Format: uuid */
            id: string;
            name: string;
            /** @enum {string} */
            type: "source" | "destination";
            connector_name: string;
            description: string | null;
            /** Format: date-time */
            created_at: string;
            /** @description Secrets are shown as ******** to callers without write permission, and to everyone if SECRETS is write_only */
            config: {
                [key: string]: unknown;
            };
        };
        SavedDestinationReference: {
            /** Format: uuid */
            saved_connector_id: string;
            /** @description Settings that the connector lets a pipeline choose */
            config?: {
                [key: string]: unknown;
            };
        };
        SavedSourceReference: {
            /** Format: uuid */
            saved_connector_id: string;
            /** @description Settings that the connector lets a pipeline choose */
            config?: {
                [key: string]: unknown;
            };
            /** @description The stream to read. */
            stream: string;
        };
        SchedulePreview: {
            schedule: string;
            timezone: string | null;
            /** @description The next five times, in UTC */
            next_times: string[];
        };
        SchemaOutlook: {
            pipeline: string;
            /** @description Why the source did not answer */
            problem: string | null;
            /** @description After the choice of columns, at most 200. Null: only reading would tell, or there was no answer */
            columns: {
                name: string;
                /** @description A column type of the platform */
                type: string;
            }[] | null;
            /** @description From what the last run read, at most 200. Null: there was none, or it loaded into another target */
            differences: components["schemas"]["ColumnDifference"][] | null;
        };
        ServiceVersion: {
            /** @description Such as 1.2.0 */
            version: string;
        };
        Session: {
            /** Format: uuid */
            id: string;
            organization: {
                /** Format: uuid */
                id: string;
                name: string;
            };
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            last_used_at: string;
            /** Format: date-time */
            expires_at: string;
            /** @description Where it was opened from */
            client_address: string | null;
            /** @description The User-Agent header of the client that opened it */
            user_agent: string | null;
            /** @description The session of this request */
            current: boolean;
        };
        SignedIn: {
            access_token: string;
            refresh_token: string;
            user: {
                /** Format: uuid */
                id: string;
                email: string;
                name: string;
                role: components["schemas"]["Role"];
            };
            organization: components["schemas"]["Organization"];
            /** @enum {string} */
            token_type: "bearer";
            /** @description Seconds until the access token expires */
            expires_in: number;
        };
        SourceConnector: {
            name: string;
            display_name: string;
            description: string;
            /** @description A whole source or destination object that works when pasted into a pipeline */
            example_config: {
                [key: string]: unknown;
            };
            /** @description JSON Schema of its settings; `secret` marks secrets, `override` what a pipeline may change. `truncated` is true where a custom source has more settings than are shown */
            config_schema: {
                [key: string]: unknown;
            };
            /** @description What it can do */
            capabilities: {
                [key: string]: unknown;
            };
            /** @description `dynamic`: they come from the system itself. At most the first 100, and 4 KB, of a custom source; a single read returns all */
            streams: string[];
            /** @description The total number, which may be more than `streams` shows. Null: dynamic */
            stream_count: number | null;
            auth_types: string[];
            /** @description Of a source that your organization has written; null: built in */
            language: ("python" | "manifest") | null;
        };
        SqliteDestination: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "sqlite";
            config?: components["schemas"]["SqliteDestinationSettings"];
        };
        SqliteDestinationSettings: {
            /** @description The name of the table. Default: the name of the stream. */
            table?: string;
        };
        SqliteSource: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "sqlite";
            authentication?: components["schemas"]["ApiKeyAuthentication"] | components["schemas"]["BearerAuthentication"] | components["schemas"]["BasicAuthentication"] | components["schemas"]["Oauth2ClientCredentialsAuthentication"] | components["schemas"]["Oauth2RefreshTokenAuthentication"] | components["schemas"]["NoAuthentication"];
            config?: components["schemas"]["SqliteSourceSettings"];
            /** @description The stream to read. */
            stream: string;
        };
        SqliteSourceSettings: {
            /** @description The http or https address of the file. */
            url?: string;
            /** @description The id of a successful run of this organization whose output is the file. */
            run_id?: string;
        };
        StreamsResult: {
            success: boolean;
            message: string;
            streams: string[];
            /** @description Only with `describe` */
            descriptions?: {
                stream: string;
                /** @description null: only reading would tell */
                columns: {
                    name: string;
                    /** @description A neutral type: int64, decimal(10,2), text[] … */
                    type: string;
                    /** @description The source's own name for it */
                    native_type: string | null;
                    nullable: boolean | null;
                }[] | null;
                primary_key: string[];
                /** @description Columns that an incremental read could use as cursor, best first */
                cursor_fields: string[];
                estimated_rows: number | null;
            }[];
        };
        SwitchOrganization: {
            /** Format: uuid */
            organization_id: string;
        };
        TimelineBar: {
            /** Format: uuid */
            id: string;
            status: components["schemas"]["RunStatus"];
            /** Format: date-time */
            started_at: string;
            /** Format: date-time */
            finished_at: string | null;
            /** @description Runs that begin within the same ten minutes are one entry, with the id and status of the one that matters most */
            runs: number;
        };
        TimelinePipeline: {
            /** Format: uuid */
            id: string;
            name: string;
            /** Format: uuid */
            domain_id: string | null;
            source_name: string | null;
            stream: string;
            destination_name: string | null;
            /** Format: uuid */
            saved_source_id: string | null;
            /** Format: uuid */
            saved_destination_id: string | null;
            enabled: boolean;
            /** Format: uuid */
            last_run_id: string | null;
            last_run_status: components["schemas"]["RunStatus"] | null;
            /** Format: date-time */
            last_run_at: string | null;
            last_error: string | null;
            /** @description If its last run failed: how often it has failed since its last success, counted to 100 */
            failures: number;
            runs: components["schemas"]["TimelineBar"][];
            /** @description Of its schedule, at most 24 */
            next_times: string[];
            /** @description It is scheduled more often than `next_times` has room for */
            more_times: boolean;
        };
        TransferOwnership: {
            /** Format: uuid */
            user_id: string;
        };
        TriggeredRun: {
            /** Format: uuid */
            id: string;
            /** Format: uuid */
            pipeline_id: string;
            status: components["schemas"]["RunStatus"];
            triggered_by: string;
            /** Format: date-time */
            created_at: string;
        };
        UpdateAlert: {
            name?: string;
            /** Format: uuid */
            domain_id?: string | null;
            /**
             * Format: uuid
             * @description Without this and `domain_id`: every pipeline
             */
            pipeline_id?: string | null;
            on?: ("failed" | "recovered" | "late" | "row_count" | "schema_changed")[];
            /** @description With late: the time within which a run must succeed */
            late_after_minutes?: number | null;
            min_records?: number | null;
            max_records?: number | null;
            /** @description Where it is sent: `{"type": "slack", "url": …}` or `{"type": "email", "to": [ … ]}` */
            channel?: {
                /** @enum {string} */
                type: "slack" | "email";
                /** @description With slack: an incoming webhook. Shown with a mask, which may be sent back */
                url?: string;
                /** @description With email: members of the organization */
                to?: string[];
            };
            /** @description Nothing is sent from `from` to `to`, which may be after midnight. What happens then is sent at their end, unless it is over by then */
            quiet_hours?: {
                from: string;
                to: string;
                /** @description Such as Europe/Berlin */
                time_zone: string;
                /** @description On which they begin. Absent: every day */
                days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
            } | null;
            /** @description Absent: true */
            enabled?: boolean;
        };
        UpdateCustomSource: {
            name?: string;
            /** @description Python; at most 512 KB */
            code?: string;
            description?: string | null;
        };
        UpdateDomain: {
            name?: string;
            description?: string | null;
            /** @description `#RRGGBB` */
            color?: string | null;
        };
        UpdateManifest: {
            name?: string;
            /** @description The YAML of a declarative manifest; at most 2 MB */
            manifest?: string;
            description?: string | null;
        };
        UpdateMe: {
            name: string;
        };
        UpdateOrganization: {
            name: string;
        };
        UpdatePipeline: {
            name?: string;
            config?: components["schemas"]["PipelineConfig"];
            /** @description Cron with five fields: minute, hour, day, month, weekday. Null or empty: manual runs only */
            schedule?: string | null;
            /** @description IANA name such as Europe/Berlin; null is UTC */
            timezone?: string | null;
            enabled?: boolean;
            /** Format: uuid */
            domain_id?: string | null;
            /** @description Change nothing; answer with what the pipeline would be */
            dry_run?: boolean;
        };
        UpdateRole: {
            role: components["schemas"]["Role"];
        };
        UpdateSavedConnector: {
            name?: string;
            /** @description Replaces the stored one; a secret sent as ******** keeps its stored value. If SECRETS is write_only, changing the address needs the secrets themselves */
            config?: {
                [key: string]: unknown;
            };
            description?: string | null;
        };
        UpdateWebhook: {
            /** @description https:// or http://, without a user name */
            url?: string;
            /** @description A success after a failure is both `run.succeeded` and `run.recovered` */
            events?: ("run.failed" | "run.succeeded" | "run.recovered")[];
            /** @description Signs what is sent; at least 16 characters. Absent: one is made */
            secret?: string;
            description?: string | null;
            /** @description Absent: true */
            enabled?: boolean;
        };
        ValidateManifest: {
            /** @description The YAML of a declarative manifest; at most 2 MB */
            manifest: string;
        };
        ValidateSource: {
            /** @description Python; at most 512 KB */
            code: string;
        };
        ValidationResult: {
            valid: boolean;
            errors: components["schemas"]["Finding"][];
            warnings: components["schemas"]["Finding"][];
            extracted_source_name: string | null;
            extracted_streams: string[] | null;
            /** @description The JSON Schema of its settings, from the type hints; null where the code is not valid */
            settings_schema: {
                [key: string]: unknown;
            } | null;
            extracted_schema: {
                config_class_name: string | null;
                config_fields: {
                    name: string;
                    type_hint: string | null;
                    required: boolean;
                }[];
                auth_class_name: string | null;
                auth_type: string | null;
            };
        };
        Webhook: {
            /** Format: uuid */
            id: string;
            url: string;
            events: string[];
            description: string | null;
            enabled: boolean;
            /** @description Why the service disabled it: nothing arrived for three days. Enabling it clears this */
            disabled_reason: string | null;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string | null;
        };
        WebhookDelivery: {
            /**
             * Format: uuid
             * @description Sent as X-Sluice-Delivery, the same at every attempt
             */
            id: string;
            /** Format: uuid */
            webhook_id: string;
            /** @enum {string} */
            event: "run.failed" | "run.succeeded" | "run.recovered" | "test";
            payload: {
                [key: string]: unknown;
            };
            /** @enum {string} */
            status: "pending" | "delivered" | "failed";
            attempts: number;
            /** Format: date-time */
            next_attempt_at: string | null;
            /** @description Of the last attempt that was answered */
            response_status: number | null;
            /** @description Why the last attempt did not arrive */
            error: string | null;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            finished_at: string | null;
        };
        WebhookDestination: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "webhook";
            config: components["schemas"]["WebhookDestinationSettings"];
        };
        WebhookDestinationSettings: {
            /** @description Where batches are sent. Use https; put keys into headers, not into the address. */
            url: string;
            /**
             * @description The HTTP method.
             * @default POST
             * @enum {string}
             */
            method?: "POST" | "PUT";
            /**
             * @description Headers of every request, such as Authorization. Their values are secrets.
             * @default {}
             */
            headers?: {
                [key: string]: string;
            };
            /**
             * Format: password
             * @description Signs every request (HMAC-SHA256 in X-Sluice-Signature). At least 16 characters.
             */
            secret?: string;
            /**
             * @description json: an object with the array `records`. ndjson: one record per line.
             * @default json
             * @enum {string}
             */
            format?: "json" | "ndjson";
            /**
             * @description The most records of a request.
             * @default 100
             */
            batch_records?: number;
            /**
             * @description The most bytes of records in a request. A record that is larger is sent alone.
             * @default 1048576
             */
            batch_bytes?: number;
            /**
             * @description How long the receiver may take to answer.
             * @default 30
             */
            timeout_seconds?: number;
            /**
             * @description How often a request is sent that gets no answer, or one that may pass (408, 425, 429, 5xx).
             * @default 5
             */
            max_attempts?: number;
        };
        WritePipelineState: {
            /** @description What it looks like depends on the source; docs/incremental.md has examples */
            cursor: unknown;
        };
    };
    responses: {
        /** @description The request conflicts with the current state. */
        Conflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The caller is known but may not do this. */
        Forbidden: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description An internal error. The log has the cause under the request id. */
        Internal: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description A body, query or path value is invalid. `detail` says what is wrong and what is allowed. */
        InvalidInput: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description It does not exist, or belongs to another organization. */
        NotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The requested range is outside the file. */
        RangeNotSatisfiable: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The body is larger than 1 MB. */
        TooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description Too many requests; `Retry-After` says when to try again. */
        TooManyRequests: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description Credentials are missing, malformed, expired or revoked, or a sign-in failed. */
        Unauthenticated: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The service is starting, shutting down, or its database does not answer. */
        Unavailable: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    getVersion: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ServiceVersion"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postAuthRegister: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Register"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthenticationResult"];
                };
            };
            400: components["responses"]["InvalidInput"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postAuthLogin: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Login"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignedIn"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postAuthRefresh: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Refresh"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignedIn"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getAuthMe: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Me"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putAuthMe: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateMe"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Me"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putAuthPassword: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangePassword"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Message"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postAuthLogout: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Message"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getAuthSessions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteAuthSessionsById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getAuthOrganizations: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MyOrganization"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postAuthSwitch: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SwitchOrganization"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignedIn"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getAuthIdp: {
        parameters: {
            query?: {
                /** @description An invitation token. It comes back as `&invitation=` for the person to accept; it is never accepted automatically */
                invitation?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description To the address in the Location header */
            302: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getAuthIdpCallback: {
        parameters: {
            query?: {
                /** @description As we sent it */
                state?: unknown;
                /** @description The authorization code */
                code?: unknown;
                /** @description The issuer, if the provider sends it */
                iss?: unknown;
                /** @description Why the provider refused */
                error?: unknown;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description To the address in the Location header */
            302: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getAuthLinkIdp: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RedirectUrl"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteAuthUnlinkIdp: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Message"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getOrganization: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Organization"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putOrganization: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateOrganization"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Organization"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postOrganizationTransferOwnership: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TransferOwnership"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Message"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesByIdRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TriggeredRun"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesByIdBackfill: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Backfill"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TriggeredRun"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesByIdRuns: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
                status?: string;
                /** @description Also count the runs of each status, in the header X-Status-Counts */
                include_counts?: boolean;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    /** @description With include_counts: a JSON object with the number of runs of each status, each counted to 10000 at most. All filters apply but that of the status */
                    "X-Status-Counts"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunListItem"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesByIdStats: {
        parameters: {
            query?: {
                days?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineStats"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesActivity: {
        parameters: {
            query: {
                /** @description Up to 100 ids of pipelines with commas between them. Those that you may not see are left out */
                ids: string;
                /** @description How many runs of each pipeline; up to 2000 of all together */
                runs?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineActivity"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getRuns: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
                /** @description The id of the last run of the page before */
                before?: string;
                status?: string;
                pipeline_id?: string;
                domain_id?: string;
                triggered_by?: string;
                /** @description From this time on. A date alone is its midnight in UTC */
                since?: string;
                /** @description Before this time. A date alone is its midnight in UTC */
                until?: string;
                /** @description Also count the runs of each status, in the header X-Status-Counts */
                include_counts?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    /** @description With include_counts: a JSON object with the number of runs of each status, each counted to 10000 at most. All filters apply but that of the status */
                    "X-Status-Counts"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationRun"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesRunsByRunId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesRunsByRunIdConfig: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunConfig"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesRunsByRunIdCancel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CancelledRun"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesRunsByRunIdLogs: {
        parameters: {
            query?: {
                /** @description Only the last lines */
                tail?: number;
                /** @description Only lines with this text, in upper or lower case */
                q?: string;
                /** @description Only lines of this level and of those above it */
                level?: "debug" | "info" | "warn" | "error";
                /** @description Only lines with a lower number */
                before?: number;
                /** @description Only the last lines of those that match; 1000 unless given, with q, level or before */
                limit?: number;
            };
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunLogs"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesRunsByRunIdLogsStream: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description An event stream */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getRunsEvents: {
        parameters: {
            query?: {
                /** @description The stream ends after this time. Absent: it does not */
                seconds?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description An event stream */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesRunsByRunIdOutputTicket: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OutputTicket"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesRunsByRunIdOutput: {
        parameters: {
            query?: {
                ticket?: string;
            };
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": Blob;
                    "application/x-ndjson": Blob;
                    "text/csv": Blob;
                    "text/tab-separated-values": Blob;
                    "application/vnd.apache.parquet": Blob;
                    "application/gzip": Blob;
                };
            };
            /** @description A part of the file */
            206: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": Blob;
                    "application/x-ndjson": Blob;
                    "text/csv": Blob;
                    "text/tab-separated-values": Blob;
                    "application/vnd.apache.parquet": Blob;
                    "application/gzip": Blob;
                };
            };
            /** @description If-None-Match names the file as it is */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            416: components["responses"]["RangeNotSatisfiable"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesRunsByRunIdDownload: {
        parameters: {
            query?: {
                ticket?: string;
            };
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": Blob;
                    "application/x-ndjson": Blob;
                    "text/csv": Blob;
                    "text/tab-separated-values": Blob;
                    "application/vnd.apache.parquet": Blob;
                    "application/gzip": Blob;
                };
            };
            /** @description A part of the file */
            206: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": Blob;
                    "application/x-ndjson": Blob;
                    "text/csv": Blob;
                    "text/tab-separated-values": Blob;
                    "application/vnd.apache.parquet": Blob;
                    "application/gzip": Blob;
                };
            };
            /** @description If-None-Match names the file as it is */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            416: components["responses"]["RangeNotSatisfiable"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesRunsByRunIdQuarantine: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Lines of `{record, reason}` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": Blob;
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesRunsByRunIdQuarantineResend: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TriggeredRun"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesRunsByRunIdReplay: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Replay"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TriggeredRun"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getRunsTimeline: {
        parameters: {
            query?: {
                /** @description The most pipelines to return */
                pipelines?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunTimeline"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getRunsDays: {
        parameters: {
            query?: {
                days?: number;
                /** @description Where a day begins: an IANA name such as Europe/Berlin */
                timezone?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunDay"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesRunsByRunIdQuery: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["QueryOutput"];
            };
        };
        responses: {
            /** @description The rows */
            200: {
                headers: {
                    /** @description As CSV: whether there are more rows */
                    "X-Truncated"?: "true" | "false";
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueryResult"];
                    "text/csv": string;
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesRunsByRunIdOutputSample: {
        parameters: {
            query?: {
                rows?: number;
            };
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueryResult"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getUsers: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Member"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getUsersByUserId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                user_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Member"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteUsersByUserId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                user_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putUsersByUserIdRole: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                user_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateRole"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemberRole"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postUsersInvite: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Invite"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedInvitation"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getUsersInvitations: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Invitation"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteUsersInvitationsByInvitationId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                invitation_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getUsersInvitationsPreview: {
        parameters: {
            query: {
                token: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InvitationPreview"];
                };
            };
            400: components["responses"]["InvalidInput"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postUsersInvitationsAccept: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["InvitationToken"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedInvitation"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getUsersByUserIdDomainRoles: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                user_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DomainRole"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postUsersByUserIdDomainRoles: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                user_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["GrantDomainRole"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DomainRole"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteUsersByUserIdDomainRolesByDomainId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                user_id: string;
                domain_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getDomains: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
                include_counts?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DomainListItem"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postDomains: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateDomain"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Domain"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getDomainsByDomainId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                domain_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Domain"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putDomainsByDomainId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                domain_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateDomain"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Domain"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteDomainsByDomainId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                domain_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getApiKeys: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiKey"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postApiKeys: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateApiKey"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedApiKey"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteApiKeysByKeyId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                key_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getAudit: {
        parameters: {
            query?: {
                actor_id?: string;
                /** @description Such as `member.removed` */
                action?: string;
                /** @description Such as `membership` */
                object_type?: string;
                object_id?: string;
                /** @description From this time on. A date alone is its midnight in UTC */
                since?: string;
                /** @description Before this time. A date alone is its midnight in UTC */
                until?: string;
                /** @description Only lines older than this one: the `id` of the last line of the previous page */
                before?: number;
                /** @description 100 unless given; at most 1000. As CSV: all unless given */
                limit?: number;
                offset?: number;
                format?: "json" | "csv";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Lines of the audit log */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditLine"][];
                    "text/csv": string;
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getWebhooks: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Webhook"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postWebhooks: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateWebhook"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedWebhook"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getWebhooksById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Webhook"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putWebhooksById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateWebhook"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Webhook"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteWebhooksById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getWebhooksByIdDeliveries: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookDelivery"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postWebhooksByIdTest: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookDelivery"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postWebhooksByIdDeliveriesByDeliveryIdResend: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                delivery_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookDelivery"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getAlerts: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Alert"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postAlerts: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateAlert"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Alert"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getAlertsById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Alert"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putAlertsById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateAlert"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Alert"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteAlertsById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getAlertsByIdDeliveries: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertDelivery"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postAlertsByIdTest: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertDelivery"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getConnectorsSources: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SourceConnector"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getConnectorsDestinations: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DestinationConnector"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postConnectorsCheck: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Either a source or a destination */
        requestBody: {
            content: {
                "application/json": components["schemas"]["ConnectorProbe"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckResult"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postConnectorsStreams: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description A source */
        requestBody: {
            content: {
                "application/json": components["schemas"]["ConnectorStreamsProbe"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StreamsResult"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getSavedSources: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedConnector"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postSavedSources: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateSavedConnector"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedConnector"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getSavedSourcesById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedConnectorWithConfig"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putSavedSourcesById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateSavedConnector"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedConnector"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteSavedSourcesById: {
        parameters: {
            query?: {
                /** @description Delete it only if no pipeline uses it; otherwise 409 */
                if_unused?: boolean;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description It is in use, and `if_unused` was given */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InUse"];
                };
            };
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getSavedSourcesByIdPipelines: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineListItem"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getSavedDestinations: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedConnector"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postSavedDestinations: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateSavedConnector"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedConnector"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getSavedDestinationsById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedConnectorWithConfig"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putSavedDestinationsById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateSavedConnector"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedConnector"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteSavedDestinationsById: {
        parameters: {
            query?: {
                /** @description Delete it only if no pipeline uses it; otherwise 409 */
                if_unused?: boolean;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description It is in use, and `if_unused` was given */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InUse"];
                };
            };
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getSavedDestinationsByIdPipelines: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineListItem"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postCustomSourcesValidate: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ValidateSource"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationResult"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getCustomSources: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CustomSourceListItem"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postCustomSources: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateCustomSource"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedCustomSource"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getCustomSourcesById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CustomSource"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putCustomSourcesById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateCustomSource"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CustomSource"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteCustomSourcesById: {
        parameters: {
            query?: {
                /** @description Delete it only if no pipeline uses it; otherwise 409 */
                if_unused?: boolean;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description It is in use, and `if_unused` was given */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InUse"];
                };
            };
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postCustomSourcesPreview: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PreviewSource"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PreviewResult"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postCustomSourcesByIdCheck: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CheckSource"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckResult"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getCustomSourcesByIdVersions: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CustomSourceVersionListItem"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getCustomSourcesByIdVersionsByVersion: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                version: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CustomSourceVersion"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getCustomSourcesByIdPipelines: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineListItem"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postManifestsValidate: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ValidateManifest"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ManifestValidation"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getManifests: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ManifestListItem"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postManifests: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateManifest"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedManifest"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getManifestsById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Manifest"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putManifestsById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateManifest"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Manifest"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deleteManifestsById: {
        parameters: {
            query?: {
                /** @description Delete it only if no pipeline uses it; otherwise 409 */
                if_unused?: boolean;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description It is in use, and `if_unused` was given */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InUse"];
                };
            };
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getManifestsByIdVersions: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ManifestVersionListItem"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getManifestsByIdVersionsByVersion: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                version: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ManifestVersion"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getManifestsByIdPipelines: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineListItem"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelines: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
                domain_id?: string;
                /** @description Of the last run */
                status?: components["schemas"]["RunStatus"];
                /** @description The same as status */
                last_run_status?: components["schemas"]["RunStatus"];
                /** @description The name of the source connector */
                source?: string;
                /** @description The name of the destination connector */
                destination?: string;
                enabled?: boolean;
                /** @description Has a schedule */
                scheduled?: boolean;
                /** @description Part of the name, case-insensitive */
                q?: string;
                /** @description The same as q */
                search?: string;
                /** @description With a leading minus: descending. Pipelines that never ran have the oldest last run, those without a next run the latest */
                sort?: "-created_at" | "created_at" | "name" | "-name" | "last_run_at" | "-last_run_at" | "next_run_at" | "-next_run_at";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineListItem"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelines: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreatePipeline"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineSummary"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesSchedulePreview: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PreviewSchedule"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SchedulePreview"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesById: {
        parameters: {
            query?: {
                /** @description Show secrets as ******** even if you may read them, for what only shows or tries it */
                masked?: boolean;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pipeline"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putPipelinesById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdatePipeline"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangedPipeline"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deletePipelinesById: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesByIdCopy: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        /** @description Generated if absent */
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CopyPipeline"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineSummary"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesByIdDuplicate: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        /** @description Generated if absent */
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CopyPipeline"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineSummary"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesBulk: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BulkPipelines"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BulkPlan"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    /** @description How many there are in all, counted to 10000 at most */
                    "X-Total-Count"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineSummary"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesByIdState: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineState"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    putPipelinesByIdState: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WritePipelineState"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineState"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    deletePipelinesByIdState: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done; no body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPipelinesByIdSchema: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineSchema"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesPreview: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PreviewPipeline"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelinePreview"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postPipelinesActions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PipelineActions"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineActionResult"][];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    postChanges: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangesRequest"];
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangesResult"];
                };
            };
            /** @description Nothing was changed */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangesRefused"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            /** @description Nothing was changed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangesRefused"];
                };
            };
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getChangesExport: {
        parameters: {
            query?: {
                /** @description Only this domain, by its name, with what its pipelines use */
                domain?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExportResult"];
                };
            };
            400: components["responses"]["InvalidInput"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
}
