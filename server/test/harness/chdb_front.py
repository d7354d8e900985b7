"""The HTTP interface of ClickHouse in front of chdb, the same engine as a library: what the clickhouse connector relies on.

Started with a folder for the data and a JSON object of users; prints the port it listens on. A request has a connection of
its own, with the settings and query parameters of its address.
"""

import base64
import http.server
import json
import re
import signal
import sys
import urllib.parse

import chdb

# Parameters of the interface itself; all others are settings.
OWN = {'database', 'query', 'query_id', 'user', 'password', 'wait_end_of_query', 'default_format'}
STATUSES = {516: 403, 497: 403, 164: 500, 60: 404, 81: 404, 62: 400}
CHUNK = 64 * 1024
# Durability is off: only our own crashes are tested.
FAST = ['fsync_metadata = 0', 'compile_expressions = 0', 'compile_aggregate_expressions = 0', 'max_threads = 1']
READING = re.compile(r'\s*(SELECT|WITH|SHOW|DESCRIBE|EXISTS)\b', re.IGNORECASE)


class Refused(Exception):
    """What the access control of a server would answer; chdb has none."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('content-length', '0')))
        given = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))
        self.begun = False
        connection = None
        try:
            sql = (given.get('query', '') + body.decode('utf-8')) if given.get('query') else body.decode('utf-8')
            self.check_user(sql)
            if self.manage_users(sql):
                self.begin()
                self.wfile.write(b'0\r\n\r\n')
                return
            connection = chdb.connect(self.server.folder)
            self.execute(connection, sql, given)
        except BrokenPipeError:
            self.close_connection = True
        except (Refused, UnicodeDecodeError, RuntimeError, Exception) as error:
            self.answer_exception(str(error))
        finally:
            if connection is not None:
                connection.close()

    def check_user(self, sql):
        kind, _, encoded = self.headers.get('authorization', '').partition(' ')
        name, _, password = base64.b64decode(encoded).decode('utf-8').partition(':') if kind == 'Basic' else ('', '', '')
        user = self.server.users.get(name)
        if user is None or user['password'] != password:
            raise Refused(
                f'Code: 516. DB::Exception: {name}: Authentication failed: password is incorrect, or there is no user '
                'with such name. (AUTHENTICATION_FAILED)'
            )
        if user.get('readonly') and not READING.match(sql):
            raise Refused(f'Code: 164. DB::Exception: {name}: Cannot execute query in readonly mode. (READONLY)')
        for table in user.get('denied', []):
            if f'.`{table}`' in sql:
                raise Refused(
                    f'Code: 497. DB::Exception: {name}: Not enough privileges. To execute this query, it\'s necessary to '
                    f'have the grant SELECT(id) ON {table}. (ACCESS_DENIED)'
                )

    def manage_users(self, sql):
        created = re.match(r"CREATE USER (\w+) IDENTIFIED BY '([^']*)'", sql)
        if created:
            self.server.users[created.group(1)] = {'password': created.group(2)}
        return created is not None or sql.startswith('GRANT ')

    def execute(self, connection, sql, given):
        database = given.get('database')
        if database:
            connection.query('USE `' + database.replace('`', '\\`') + '`')
        settings = FAST + [
            f'{name} = {quote(value)}'
            for name, value in given.items()
            if name not in OWN and not name.startswith('param_')
        ]
        if settings:
            connection.query('SET ' + ', '.join(settings))
        params = {name[len('param_') :]: value for name, value in given.items() if name.startswith('param_')}
        # Not streamed: chdb would begin and end the format anew with every block.
        result = bytes(connection.query(sql, 'TabSeparated', params=params).bytes())
        self.begin()
        for at in range(0, len(result), CHUNK):
            self.send_chunk(result[at : at + CHUNK])
        self.wfile.write(b'0\r\n\r\n')

    def begin(self):
        if self.begun:
            return
        self.begun = True
        self.send_response(200)
        self.send_header('transfer-encoding', 'chunked')
        self.send_header('x-clickhouse-format', 'TabSeparated')
        self.end_headers()

    def send_chunk(self, chunk):
        if chunk:
            self.wfile.write(b'%x\r\n%b\r\n' % (len(chunk), chunk))

    def answer_exception(self, text):
        found = re.search(r'Code: (\d+)\. DB::Exception: ', text)
        text = text[found.start() :] if found else f'Code: 1001. DB::Exception: {text}'
        number = int(found.group(1)) if found else 1001
        message = (text + '\n').encode('utf-8', 'replace')
        if self.begun:
            self.close_connection = True
            return
        self.send_response(STATUSES.get(number, 500))
        self.send_header('x-clickhouse-exception-code', str(number))
        self.send_header('content-length', str(len(message)))
        self.end_headers()
        self.wfile.write(message)

    def log_message(self, *_):
        pass


def quote(value):
    return "'" + value.replace('\\', '\\\\').replace("'", "\\'") + "'"


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def main():
    folder, users = sys.argv[1], json.loads(sys.argv[2])
    port = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    server = Server(('127.0.0.1', port), Handler)
    server.folder = folder
    server.users = users
    # Held open, so that the engine is started once.
    held = chdb.connect(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(server.server_address[1], flush=True)
    try:
        server.serve_forever()
    finally:
        held.close()


if __name__ == '__main__':
    main()
