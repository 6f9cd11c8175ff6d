"""An MCP server whose answers and descriptions a stranger wrote: python desk_server.py FOLDER

FOLDER/tools.json has what it says of tools, FOLDER/NAME.txt what it answers to `read`; all that it
is called with goes to FOLDER/called.
"""

import asyncio
import json
import sys
from pathlib import Path

import mcp.types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

FOLDER = Path(sys.argv[1])


def words(name: str) -> dict[str, object]:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


async def on_list_tools(context, params):
    told = json.loads((FOLDER / "tools.json").read_text())
    return types.ListToolsResult(
        tools=[
            types.Tool(name="read", description="Reads a ticket.", input_schema=words("name")),
            types.Tool(name="post", description="Posts a text.", input_schema=words("text")),
            *(
                types.Tool(name=name, description=text, input_schema=words("word"))
                for name, text in told.items()
            ),
        ]
    )


async def on_call_tool(context, params):
    given = params.arguments or {}
    with (FOLDER / "called").open("a") as file:
        file.write(json.dumps([params.name, given]) + "\n")
    path = FOLDER / f"{given.get('name', '')}.txt"
    text = path.read_text() if params.name == "read" and path.is_file() else "ok"
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def main() -> None:
    server = Server("desk", on_list_tools=on_list_tools, on_call_tool=on_call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
